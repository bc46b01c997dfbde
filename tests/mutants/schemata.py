"""Many mutants in one source file: each behind a switch, so that one build serves all of them.

What `cargo mutants` would change in the text becomes a choice at run time:

    a + b                  (if on(17) { a - b } else { a + b })
    fn f() -> bool {       fn f() -> bool { if on(18) { return true; }
    Some(x) => ...         Some(x) if !on(19) => ...

A `const fn` with a switch in it is none any more.
"""

import re

import tree_sitter
import tree_sitter_rust

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))

# Operands that need parentheses when the operator before or behind them is another one.
LOOSE = {
    "binary_expression", "type_cast_expression", "range_expression", "closure_expression",
    "unary_expression", "reference_expression", "if_expression", "match_expression",
}


class Untranslatable(Exception):
    """There is no switch for this kind of mutant in this place."""


def on(number):
    return f"crate::mutants::on({number})"


def in_core(replacement):
    """A value as a crate without `std` and with few names in scope has to write it."""
    value = replacement.replace("::std::", "::core::").replace("vec![", "alloc::vec![")
    value = re.sub(r"(?<![:\w])String::", "alloc::string::String::", value)
    value = re.sub(r"(?<![:\w])Vec::", "alloc::vec::Vec::", value)
    value = re.sub(r"(?<![:\w])BTreeMap::", "alloc::collections::BTreeMap::", value)
    value = re.sub(r"(?<![:\w])Box::", "alloc::boxed::Box::", value)
    return re.sub(r"(?<![:\w])Arc::", "alloc::sync::Arc::", value)


class File:
    """A source file and the mutants that go into it."""

    def __init__(self, source):
        self.source = source.encode()
        self.lines = [0]
        for line in self.source.split(b"\n"):
            self.lines.append(self.lines[-1] + len(line) + 1)
        self.tree = PARSER.parse(self.source)
        # By the node's place and kind, since nodes of the parser have no identity of their own.
        self.changes = {}
        self.not_const = set()

    def offset(self, place):
        start = self.lines[place["line"] - 1]
        line = self.source[start:self.lines[place["line"]]].decode()
        return start + len(line[:place["column"] - 1].encode())

    def add(self, number, mutant):
        """Puts a mutant as `cargo mutants --list --json` describes it behind the switch `number`."""
        start, end = self.offset(mutant["span"]["start"]), self.offset(mutant["span"]["end"])
        kinds = {
            "FnValue": self.function,
            "BinaryOperator": self.operator,
            "UnaryOperator": self.unary,
            "MatchArm": self.arm,
            "MatchArmGuard": self.guard,
            "StructField": self.field,
        }
        if mutant["genre"] not in kinds:
            raise Untranslatable(mutant["genre"])
        node = kinds[mutant["genre"]](start, end)
        if of_planted_bug(node):
            raise Untranslatable("a planted bug's own code")
        self.changes.setdefault(key(node), []).append((number, mutant["replacement"]))
        function = self.around(start, start, {"function_item"})
        if function is not None:
            self.not_const.add(key(function))

    def free_of_const(self, name):
        """Makes the functions of that name ones that are no `const fn`."""
        for function in functions(self.tree.root_node):
            if function.child_by_field_name("name").text.decode() == name:
                self.not_const.add(key(function))

    def around(self, start, end, kinds):
        """The innermost node of one of the kinds that holds the range."""
        node = self.tree.root_node.descendant_for_byte_range(start, max(start, end - 1))
        while node is not None and node.type not in kinds:
            node = node.parent
        return node

    def needed(self, node, fits=lambda node: True):
        if node is None or not fits(node):
            raise Untranslatable("no such place")
        return node

    def function(self, start, end):
        function = self.around(start, end, {"function_item"})
        return self.needed(function and function.child_by_field_name("body"))

    def operator(self, start, end):
        node = self.around(start, end, {"binary_expression", "compound_assignment_expr"})
        return self.needed(node, lambda node: node.child_by_field_name("operator").start_byte == start)

    def unary(self, start, end):
        return self.needed(self.around(start, end, {"unary_expression"}), lambda node: node.start_byte == start)

    def arm(self, start, end):
        arm = self.around(start, end, {"match_arm"})
        return self.needed(arm and arm.child_by_field_name("pattern"))

    def guard(self, start, end):
        pattern = self.around(start, end, {"match_pattern"})
        return self.needed(pattern, lambda node: node.child_by_field_name("condition") is not None)

    def field(self, start, end):
        field = self.around(start, end, {"field_initializer", "shorthand_field_initializer"})
        return self.needed(field, lambda node: base_of(node) is not None)

    def text(self):
        return self.render(self.tree.root_node)

    def render(self, node):
        """The node's text with all that is changed in it, each change between two comments."""
        changes = self.changes.get(key(node), ())
        if not changes:
            return self.plain(node)
        if node.type == "block":
            return "{" + self.heads(changes) + self.plain(node)[1:]
        return marked([number for number, _ in changes], self.changed(node, changes))

    def plain(self, node, without=None):
        if not node.children:
            return self.source[node.start_byte:node.end_byte].decode()
        out, at = [], node.start_byte
        drop = modifier(node, b"const") if key(node) in self.not_const else None
        for child in node.children:
            out.append(self.source[at:child.start_byte].decode())
            if drop is not None and child.type == "function_modifiers":
                out.append(re.sub(r"\bconst\b", "", self.source[child.start_byte:child.end_byte].decode()))
            else:
                out.append(self.render(child))
            at = child.end_byte
        out.append(self.source[at:node.end_byte].decode())
        return "".join(out)

    def operand(self, node):
        return f"({self.render(node)})" if node.type in LOOSE else self.render(node)

    def changed(self, node, changes):
        if node.type in ("binary_expression", "compound_assignment_expr"):
            left, right = (self.operand(node.child_by_field_name(side)) for side in ("left", "right"))
            ways = [f"if {on(number)} {{ {left} {operator} {right} }} else " for number, operator in changes]
            return f"({''.join(ways)}{{ {self.plain(node)} }})"
        if node.type == "unary_expression":
            number, _ = changes[0]
            return f"(if {on(number)} {{ {self.render(node.children[1])} }} else {{ {self.plain(node)} }})"
        if node.type == "match_pattern":
            return self.pattern(node, changes)
        return self.initializer(node, changes)

    def heads(self, changes):
        """Early returns."""
        return "".join(
            marked([number], f" if {on(number)} {{ return {in_core(value)}; }}") for number, value in changes)

    def pattern(self, node, changes):
        condition = node.child_by_field_name("condition")
        pattern, guard = self.render(node.children[0]), ""
        if condition is not None:
            pattern = self.source[node.start_byte:condition.start_byte].decode().rsplit("if", 1)[0].rstrip()
            guard = self.render(condition)
        for number, replacement in changes:
            if replacement == "true":
                guard = f"{on(number)} || ({guard})"
            elif guard:
                guard = f"!{on(number)} && ({guard})"
            else:
                guard = f"!{on(number)}"
        return f"{pattern} if {guard}"

    def initializer(self, node, changes):
        number, _ = changes[0]
        base = self.render(base_of(node).children[1])
        if node.type == "shorthand_field_initializer":
            name = value = self.plain(node)
        else:
            name = self.plain(node.child_by_field_name("field"))
            value = self.render(node.child_by_field_name("value"))
        return f"{name}: if {on(number)} {{ {base}.{name} }} else {{ {value} }}"


def marked(numbers, text):
    """The text between comments, by which an error of the compiler finds its mutant."""
    opening = "".join(f"/*<{number}*/" for number in numbers)
    closing = "".join(f"/*{number}>*/" for number in reversed(numbers))
    return opening + text + closing


def base_of(field):
    """What a struct expression takes its other fields from."""
    return next((node for node in field.parent.children if node.type == "base_field_initializer"), None)


def of_planted_bug(node):
    """Whether it is about a planted bug, or runs only with one."""
    asks = re.compile(rb"(!?)[\w.]*bugs\.has\(")
    if node.type in ("binary_expression", "unary_expression") and asks.search(node.text):
        return True
    inner = node
    while inner.parent is not None and inner.type != "function_item":
        outer = inner.parent
        if outer.type == "if_expression" and inner == outer.child_by_field_name("consequence"):
            asked = asks.search(outer.child_by_field_name("condition").text)
            if asked and not asked[1]:
                return True
        inner = outer
    return False


def modifier(function, name):
    for child in function.children:
        if child.type == "function_modifiers" and name in child.text.split():
            return child
    return None


def key(node):
    return (node.start_byte, node.end_byte, node.type)


def functions(node):
    if node.type == "function_item":
        yield node
    for child in node.children:
        yield from functions(child)


def function_at(text, at):
    """The name of the function that holds the byte."""
    node = PARSER.parse(text.encode()).root_node.descendant_for_byte_range(at, at)
    while node is not None and node.type != "function_item":
        node = node.parent
    return node.child_by_field_name("name").text.decode() if node is not None else ""


def mutants_at(text, start, end):
    """The mutants that an error between two bytes of a rendered file is about: the innermost one around
    it, or else those in it."""
    text = text.encode()
    around, inside = [], []
    for opening in re.finditer(rb"/\*<(\d+)\*/", text):
        closing = text.find(b"/*" + opening[1] + b">*/", opening.end())
        if opening.start() <= start and end <= closing + len(opening[0]):
            around.append((closing - opening.start(), int(opening[1])))
        elif start <= opening.start() and closing <= end:
            inside.append(int(opening[1]))
    return [min(around)[1]] if around else sorted(set(inside))
