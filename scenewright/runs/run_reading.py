"""The reading of a run: a sentence is read once by its language model, and kept in the run folder.

What was read is written with its cost before anything else is done, so that a run that is begun
again after a kill pays for nothing twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from scenewright.agents.parsers.unread import CaptionError
from scenewright.core.flushing import write_text
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import first_problem
from scenewright.graphs.events import SentenceReading
from scenewright.providers.sdk_clients import paying
from scenewright.providers.usage import metered
from scenewright.runs.folder import READING, RunError
from scenewright.runs.plan import RunPlan, UnreadSentence
from scenewright.runs.reading import ReadingError, ReadScene, paid_reading, read_words
from scenewright.runs.spending import check_limit


async def read_plan(plan: RunPlan, earlier: SentenceReading | None = None) -> RunPlan:
    """Return ``plan`` with its sentence read by its language model, if it is still to be read.

    The reading is kept in the run folder, so that the run pays for it once. ``earlier``: that of
    another wording, which this run has paid for too. Raises as :func:`read_words`, and ``RunError``
    for a folder that is not the run's.
    """
    if plan.unread is None:
        return plan
    if earlier is not None:
        plan = replace(plan, unread=replace(plan.unread, earlier=earlier))
    with plan.folder.locked():
        return await read_locked(plan)


async def read_locked(plan: RunPlan) -> RunPlan:
    """Return :func:`read_plan` of a run whose folder is locked."""
    unread = plan.unread
    if unread is None:
        return plan
    digest = hashlib.sha256(unread.text.encode("utf-8", "surrogatepass")).hexdigest()
    path = plan.folder / f"{READING}{digest[:8]}.json"
    stored = await asyncio.to_thread(_stored, path)
    if stored is None:
        # What would be refused later is not paid for.
        plan.folder.check_config(plan.config)
    by_rules = stored is not None and stored.reading is not None and stored.reading.reader != "llm"
    if stored is None or (by_rules and plan.folder.manifest() is None):
        check_limit(plan)
        before = unread.earlier if stored is None else stored.reading
        stored = await _read_and_store(plan, unread, path, before)
    read = unread.replan(stored.scene)
    options = read.options.model_copy(update={"budget": plan.options.budget})
    return replace(
        plan,
        scene=read.scene,
        options=options,
        config=read.config,
        unread=None,
        reading=stored.reading,
    )


def _stored(path: Path) -> ReadScene | None:
    """Return the reading that a run folder has; None if there is none."""
    try:
        return ReadScene.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        why = first_problem(error) if isinstance(error, ValidationError) else error
        raise RunError(f"{path} cannot be read: {why}. Restore it, or start anew") from error


async def _read_and_store(
    plan: RunPlan, unread: UnreadSentence, path: Path, before: SentenceReading | None
) -> ReadScene:
    """Return the reading of a sentence; ``before``: an earlier reading that this run paid for."""
    name = path.with_suffix(".nonce")

    def nonce() -> str:
        """Return the random name of a reading under way, which the run has before its manifest."""
        if not name.exists():
            write_text(name, secrets.token_hex(16))
        return name.read_text(encoding="utf-8")

    def store(read: ReadScene) -> ReadScene:
        if read.reading is not None:
            read = read.model_copy(update={"reading": read.reading.plus(before)})
        write_text(path, read.model_dump_json(indent=2))
        # The next attempt wants another reply.
        name.unlink(missing_ok=True)
        return read

    with metered() as spent, paying(await asyncio.to_thread(nonce), "read"):
        try:
            found = await read_words(
                unread.text,
                plan.profile,
                plan.settings,
                reader=unread.reader,
                limit=plan.options.budget.usd,
            )
        except (CaptionError, ReadingError) as error:
            # Nobody has read it; what that cost is the next attempt's.
            reading = paid_reading(plan.profile.chat or "", spent, str(error))
            await asyncio.to_thread(store, ReadScene(scene=SceneGraph(), reading=reading))
            raise
    return await asyncio.to_thread(store, found)
