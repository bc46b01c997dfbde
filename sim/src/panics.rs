//! A panic of the core as a value: its message and place, and nothing on standard error.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs something that may panic.
pub fn catch<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if CATCHING.get() {
                LAST.with(|last| *last.borrow_mut() = Some(info.to_string()));
            } else {
                before(info);
            }
        }));
    });
    CATCHING.set(true);
    // What was half done is only looked at for the report.
    let result = catch_unwind(AssertUnwindSafe(run));
    CATCHING.set(false);
    result.map_err(|_| {
        LAST.with(|last| last.borrow_mut().take())
            .unwrap_or_else(|| "a panic without a message".to_owned())
    })
}
