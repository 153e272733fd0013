"""Whether every variable that a node reads is there by the time it runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from autoprompt.workflow.engine.conditions import ExpressionError
from autoprompt.workflow.engine.template import Selector
from autoprompt.workflow.engine.variables import MAX_ID_PARTS
from autoprompt.workflow.file import model_records, records
from autoprompt.workflow.file.apps import is_name
from autoprompt.workflow.file.checker import CheckedGraph, CheckedNode, Checker, extraction_where
from autoprompt.workflow.file.faults import Where
from autoprompt.workflow.file.fields import NodeData
from autoprompt.workflow.file.order import Order, succeeded
from autoprompt.workflow.file.variables import SYSTEM_VARIABLES, Outputs, Use, outputs, uses

_MAX_LISTED = 20
_NO_NAME = (
    "Dify fills in only names of at most 30 ASCII letters, digits and underscores. Rename the variable."
)
_EMPTY_TEXTS = (  # fields of nodes that ask a model
    (model_records.ExtractorData, "query"),
    (model_records.ClassifierData, "query_variable_selector"),
    (model_records.LLMData, "context"),
)
_OF_FAILURE = ("error_type", "error_message")
# What a node makes of a variable of a branch that was not taken. None: null, which such nodes are for.
_FAILS = "Then this node fails. Join the branches with a variable-aggregator, and read its output."
_IF_EMPTY: Mapping[type[NodeData] | type[None], str | None] = {
    records.AnswerData: "Then the answer is without it.",
    records.CodeData: "Then it is None.",
    records.TemplateData: "Then it is None.",
    records.EndData: None,
    records.IfElseData: None,
    records.AggregatorData: None,
}


@dataclass(frozen=True)
class _Scope:
    """What the nodes of one graph see besides each other.

    outer: nodes that ran before the container, or contain it. around: the orders that these are in, with the
    container there. home: every node of the workflow -> id of the
    container around it, "" for none.
    """

    graph: CheckedGraph
    outer: Mapping[str, CheckedNode] = field(default_factory=dict)
    around: tuple[tuple[Order, str], ...] = ()
    home: Mapping[str, str] = field(default_factory=dict)


class SelectorChecker:
    """Reports to the faults of `checker`: unknown nodes and variables, later nodes, nodes elsewhere."""

    def __init__(self, checker: Checker, graph: CheckedGraph) -> None:
        self._checker, self._faults, self._graph = checker, checker.faults, graph
        file = checker.file
        self._inputs = _inputs_of(graph)
        self._reserved: dict[str, Outputs] = {
            "sys": SYSTEM_VARIABLES | self._inputs,
            "env": frozenset(variable.name for variable in file.environment),
            "conversation": frozenset(variable.name for variable in file.conversation),
        }
        self._nodes = {node.id: node for node in all_nodes(graph)}
        self.read: dict[str, dict[str, list[str]]] = {}  # node id -> output -> ids of the nodes that read it
        self._parents = {v.id: node.id for node in self._nodes.values() for v in node.virtual.values()}

    def check(self) -> None:
        self._graph_uses(_Scope(self._graph, home=dict(_homes(self._graph, ""))))

    def _graph_uses(self, scope: _Scope) -> None:
        for node in scope.graph.nodes.values():
            self._node_uses(node, scope)
        for container, inner in scope.graph.inner.items():
            before = scope.graph.order.before.get(container, frozenset())
            seen = {node_id: scope.graph.nodes[node_id] for node_id in (*before, container)}
            around = (*scope.around, (scope.graph.order, container))
            self._graph_uses(_Scope(inner, {**scope.outer, **seen}, around, scope.home))

    def _node_uses(
        self,
        node: CheckedNode,
        scope: _Scope,
        runner: str | None = None,
        around: Mapping[str, CheckedNode] | None = None,
    ) -> None:
        """runner, around: of a virtual node: the graph's node that it is in, and what ran there before."""
        runner = runner or node.id
        earlier = dict(around or {})
        for local, virtual in node.virtual.items():
            self._node_uses(virtual, scope, runner, earlier)
            earlier[local] = virtual
        for spec in node.extracted:
            source = self._resolve((spec.source_node_id, spec.source_variable), earlier)
            if source is not None and source[0] not in self._reserved:
                name, where = f"{node.id}.{spec.local_id}", extraction_where(node.file, spec.input_name)
                shown = f"{spec.source_node_id}.{spec.source_variable}"
                self._is_before(source[0], Use((shown,), ()), scope, runner, earlier, shown, where, name)
                self._note_reader(source, name)
        if node.data is None:
            return
        try:
            found = list(uses(node.data))
        except ExpressionError:
            return  # told already
        named = {entry.name for entry in node.data.inputs}
        for use in found:
            is_of_inputs = use.where[0] == "inputs"  # which do not see each other
            if len(use.selector) == 1 and use.selector[0] in named and not is_of_inputs:
                if use.literal:
                    self._warn_of_literal(use, use.selector, (*node.file.data_where, *use.where), node.id)
                continue
            self._use(use, node, scope, earlier, runner)
        if isinstance(node.data, records.AssignerData):
            self._assigned(node, scope)

    def _use(
        self,
        use: Use,
        node: CheckedNode,
        scope: _Scope,
        locals_: Mapping[str, CheckedNode],
        runner: str,
    ) -> None:
        """runner: the node of the graph that reads; the parent for a virtual one."""
        node_id, where = node.id, (*node.file.data_where, *use.where)
        if use.literal:
            self._near(use, where, locals_, node_id)
            return
        shown = ".".join(use.selector)
        found = self._resolve(use.selector, locals_)
        if found is None:
            named = [entry.name for entry in node.data.inputs] if node.data is not None else []
            known = [*named, *locals_, *self._visible(scope, runner)]
            virtual = self._virtual_named(use.selector[0])
            hint = f"Did you mean {virtual!r}?" if virtual else _hint(use.selector[0], known)
            self._faults.add(where, f"{shown}: no node {use.selector[0]!r}. {hint}", node_id)
            return
        source, rest = found
        if not rest:
            self._faults.add(
                where, f"{shown} names a node and no variable of it. Write [node, variable].", node_id
            )
            return
        if source in self._reserved:
            self._variable(source, rest[0], self._reserved[source], shown, where, node_id)
            return
        if not self._is_before(source, use, scope, runner, locals_, shown, where, node_id):
            return
        self._variable(source, rest[0], self._outputs(source), shown, where, node_id)
        self._note_reader(found, node_id)
        if not use.may_be_inner:
            self._may_be_empty(source, rest[0], scope, runner, shown, where, node)

    def _note_reader(self, found: tuple[str, Selector], reader: str) -> None:
        source, path = found
        if path and reader not in self._checker.unused:
            self.read.setdefault(source, {}).setdefault(path[0], []).append(reader)

    def _may_be_empty(
        self,
        source: str,
        name: str,
        scope: _Scope,
        runner: str,
        shown: str,
        where: Where,
        reader: CheckedNode,
    ) -> None:
        """Warn of a variable of a node that does not run, or fails, on one of the ways to this one."""
        parent = source
        while parent in self._parents:
            parent = self._parents[parent]
        is_text = (type(reader.data), where[len(reader.file.data_where)]) in _EMPTY_TEXTS
        told = "Then it is an empty text." if is_text else _IF_EMPTY.get(type(reader.data), _FAILS)
        if parent == runner or told is None:
            return
        here = (scope.graph.order, runner)
        order, reader_there = next(
            (order, node_id) for order, node_id in (here, *scope.around) if parent in order.bits
        )
        if not order.is_sure(parent, reader_there):
            why = f"node {parent!r} does not run on every way to this one"
        elif (
            name not in _OF_FAILURE
            and source == parent
            and not order.is_sure(succeeded(parent), reader_there)
        ):
            why = f"node {parent!r} may fail and leave by its fail-branch"
        else:
            return
        self._faults.add(where, f"{shown} may be empty: {why}. {told}", reader.id, severity="warning")

    def _virtual_named(self, name: str) -> str | None:
        """Return the virtual node that is called `parent_ext_N`, or by its local id outside of its parent."""
        dotted = name.replace("_ext_", ".ext_")
        called = (name, dotted)
        return next(
            (i for i, parent in self._parents.items() if i in called or i == f"{parent}.{name}"), None
        )

    def _near(self, use: Use, where: Where, locals_: Mapping[str, CheckedNode], node_id: str) -> None:
        """Report what looks like a reference and is none, but would name something that there is."""
        is_input = len(use.selector) == 1 and use.selector[0] in self._inputs
        meant = ("sys", *use.selector) if is_input else use.selector
        source, rest = self._resolve(meant, locals_) or ("", ())
        if not rest or source == node_id:
            return
        known = self._reserved[source] if source in self._reserved else self._outputs(source)
        if known is not None and rest[0] not in known:
            return
        if is_input and getattr(self._nodes[node_id].data, "is_app", False):
            name = use.selector[0]
            fix = f"For the variable, write {{{{{name}}}}}." if is_name(name) else _NO_NAME
            said = f"{use.literal} is sent as it is. {fix}"
            self._faults.add(where, said, node_id, severity="warning")
        else:
            self._warn_of_literal(use, meant, where, node_id)

    def _warn_of_literal(self, use: Use, meant: Selector, where: Where, node_id: str) -> None:
        self._faults.add(
            where,
            f"{use.literal} is sent as it is. For the variable, write {{{{#{'.'.join(meant)}#}}}}.",
            node_id,
            severity="warning",
        )

    def _resolve(self, selector: Selector, locals_: Mapping[str, CheckedNode]) -> tuple[str, Selector] | None:
        """(id of the node, name and path); the longest id that there is."""
        if selector[0] in locals_:
            return locals_[selector[0]].id, selector[1:]
        for length in range(min(len(selector), MAX_ID_PARTS), 0, -1):
            joined = ".".join(selector[:length])
            if joined in self._nodes or joined in self._reserved:
                return joined, selector[length:]
        return None

    def _is_before(
        self,
        source: str,
        use: Use,
        scope: _Scope,
        runner: str,
        locals_: Mapping[str, CheckedNode],
        shown: str,
        where: Where,
        node_id: str,
    ) -> bool:
        if any(virtual.id == source for virtual in locals_.values()):
            return True
        parent = source
        while parent in self._parents:
            parent = self._parents[parent]
        if parent in scope.outer or parent in scope.graph.order.before.get(runner, frozenset()):
            return True
        home = scope.home.get(parent, "")
        if use.may_be_inner and home == runner:
            return True
        if parent == runner and (parent in scope.graph.inner or source == runner):
            # A container's own variables, read by its conditions.
            if use.may_be_inner:
                return True
            problem = "this node itself, which has no value yet"
        elif home != (scope.graph.container or "") and home not in ("", *scope.outer):
            problem = (
                f"a node inside of {home!r}; from outside, read what {home!r} puts out "
                f"({', '.join(sorted(self._outputs(home) or ()))})"
            )
        elif parent in scope.graph.nodes and runner in scope.graph.order.before.get(parent, frozenset()):
            problem = "a node that runs later"
        else:
            problem = "a node that no path leads from to this one, so it may run later or not at all"
        known = self._visible(scope, runner)
        self._faults.add(
            where, f"{shown}: {source!r} is {problem}. Before this node: {_listed(known)}.", node_id
        )
        return False

    def _variable(
        self, source: str, name: str, known: Outputs | None, shown: str, where: Where, node_id: str
    ) -> None:
        if known is None or name in known:
            return
        if name.startswith("sys.") and name[4:] in SYSTEM_VARIABLES and self._is_start(source):
            return
        has = _hint(name, sorted(known)) if known else "It has none."
        self._faults.add(where, f"{shown}: {source!r} has no variable {name!r}. {has}", node_id)

    def _is_start(self, node_id: str) -> bool:
        node = self._nodes.get(node_id)
        return node is not None and isinstance(node.data, records.StartData)

    def _outputs(self, node_id: str) -> Outputs | None:
        node = self._nodes.get(node_id)
        mock = self._checker.file.mocks.get(node_id)
        mocked = mock.get("outputs") if isinstance(mock, Mapping) else None
        if node is None or node.data is None:
            return None  # it has faults of its own; what reads it is right
        own = outputs(node.data)
        return own | frozenset(mocked) if own is not None and isinstance(mocked, Mapping) else own

    def _visible(self, scope: _Scope, runner: str) -> list[str]:
        before = scope.graph.order.before.get(runner, frozenset())
        return [node_id for node_id in self._nodes if node_id in before or node_id in scope.outer]

    def _assigned(self, node: CheckedNode, scope: _Scope) -> None:
        """Report assignments to what is no variable of the conversation or of a loop around."""
        data = node.data
        for place, item in enumerate(data.items if isinstance(data, records.AssignerData) else ()):
            found = self._resolve(item.variable_selector, {})
            target = None if found is None else self._nodes.get(found[0])
            is_loop = target is not None and isinstance(target.data, records.LoopData)
            if found is None or found[0] == "conversation" or (is_loop and found[0] in scope.outer):
                continue
            names = sorted(self._reserved["conversation"])
            self._faults.add(
                (*node.file.data_where, "items", place, "variable_selector"),
                f"{'.'.join(item.variable_selector)} cannot be assigned to: only variables of the "
                f"conversation ({_listed(names)}) and of a loop around this node can.",
                node.id,
            )


def all_nodes(graph: CheckedGraph) -> Iterable[CheckedNode]:
    """Yield every node of a graph, virtual and inner ones too."""
    for node in graph.nodes.values():
        yield node
        yield from _virtual_nodes(node)
    for inner in graph.inner.values():
        yield from all_nodes(inner)


def _virtual_nodes(node: CheckedNode) -> Iterable[CheckedNode]:
    for virtual in node.virtual.values():
        yield virtual
        yield from _virtual_nodes(virtual)


def _homes(graph: CheckedGraph, container: str) -> Iterable[tuple[str, str]]:
    for node_id in graph.nodes:
        yield node_id, container
    for name, inner in graph.inner.items():
        yield from _homes(inner, name)


def _inputs_of(graph: CheckedGraph) -> frozenset[str]:
    starts = [node.data for node in graph.nodes.values() if isinstance(node.data, records.StartData)]
    return frozenset(variable.variable for data in starts for variable in data.variables)


@lru_cache(maxsize=8)
def _closest(name: str, known: tuple[str, ...]) -> list[str]:
    """Return near names. Cached: a wrong name is often read in many places; 20,000 names take 10 ms."""
    return difflib.get_close_matches(name, known, n=1)


def _hint(name: str, known: Iterable[str]) -> str:
    names = tuple(known)
    close = _closest(name, names)
    return (f"Did you mean {close[0]!r}? " if close else "") + f"Known here: {_listed(names)}."


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    rest = len(listed) - _MAX_LISTED
    shown = ", ".join(listed[:_MAX_LISTED]) or "none"
    return shown + (f" and {rest} more" if rest > 0 else "")
