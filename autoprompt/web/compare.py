"""The page of two runs beside each other."""

from __future__ import annotations

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request

from autoprompt.errors import StoreError
from autoprompt.report import read_summary
from autoprompt.report.two_runs import compare
from autoprompt.web.pages import Pages


def comparison_page(pages: Pages, request: Request) -> str:
    """`/compare?run=A&run=B`."""
    keys = request.query_params.getlist("run")
    if len(keys) != 2:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "Two runs are compared: choose two in the list.")
    entries = [pages.find(key) for key in keys]
    for entry in entries:
        if entry.line.problem:
            raise HTTPException(HTTPStatus.CONFLICT, entry.line.problem)
    try:
        found = compare(*(read_summary(entry.folder) for entry in entries))
    except StoreError as error:
        raise HTTPException(HTTPStatus.CONFLICT, str(error)) from error
    return pages.render("compare.html.j2", found=found, entries=entries)
