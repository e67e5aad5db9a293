"""All pages."""

from __future__ import annotations

from fastapi import APIRouter

from scenewright.service.web import compare, gallery, login, rendering, run_page, start

router = APIRouter(include_in_schema=False)
for room in (rendering, login, start, gallery, run_page, compare):
    router.include_router(room.router)
