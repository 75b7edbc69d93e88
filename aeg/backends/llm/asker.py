"""Asking a language model many things: cache, backend, parsing, asking again with the error told, quarantine."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aeg.backends.llm.ask import Answer, Ask, Job, failure_of
from aeg.backends.llm.base import BACKENDS, Backend, Failure, Reply, Request
from aeg.backends.llm.cache import ReplyCache, asked, reply_key
from aeg.backends.llm.ledger import Ledger, LedgerRow, prompt_tokens
from aeg.backends.llm.lines import Lines
from aeg.backends.llm.prompt import Prompt, load_prompt
from aeg.backends.llm.sender import Sender
from aeg.backends.llm.structured import InvalidReply, Parsed
from aeg.core.progress import progress_bar

__all__ = ["Answer", "Ask", "Asker"]


class Asker:
    """A language model, asked through a cache.

    A reply that fits its form is cached at once. One that does not is asked for again, up to `reasks` times, with
    the error told (one that was cut, once, with twice the tokens). What then still fails is quarantined: counted,
    kept with request and reply in `folder/quarantine`, and asked again by the next run, as nothing of it is cached.
    A reply that broke off gives the items that were whole; it is counted and quarantined as `partial` and not
    cached. A `context_length` failure is only returned, for the stage to split its passage or to `quarantine`.

    Counts in the ledger, by prompt: `duplicates`, `reasked`, `repaired`, `partial`, `stale` (cached replies that
    break a rule by now), `quarantined`, `context_length`.

    Attributes:
        backend: what is asked; opened at the first call that the cache cannot save.
        ledger: where calls are booked.
        what: the role (`extractor`, `reader`, `judge`), for progress and messages.
    """

    def __init__(
        self,
        backend: Backend,
        folder: Path | None,
        ledger: Ledger,
        reasks: int = 2,
        prompts: Mapping[str, str] | None = None,
        what: str = "reader",
        root: Path | None = None,
    ) -> None:
        """Prepare to ask; nothing is sent.

        Args:
            backend: the model.
            folder: holds `cache/` and `quarantine/`; None: nothing on disk.
            ledger: where calls are booked, and the budget.
            reasks: how often an unusable reply is asked for again.
            prompts: a user's own prompt files, by task.
            what: the model's role.
            root: the folder from which relative paths in `prompts` start.

        Raises:
            ConfigError: if there is a budget and the model has no price.
        """
        self.backend = backend
        self.ledger = ledger
        self.what = what
        self.reasks = reasks
        self._prompts: dict[str, Prompt] = {}
        self._overrides = dict(prompts or {})
        self._root = root
        self._cache = None if folder is None else ReplyCache(folder / "cache")
        self._quarantine = None if folder is None else Lines(folder / "quarantine", "quarantine")
        self._sender = Sender(backend, ledger)

    def ask(self, asks: Sequence[Ask], what: str = "") -> list[Answer]:
        """Return the answers, in order, showing progress; a failed one is an `Answer` with its failure.

        Args:
            asks: what to ask; equal ones are asked once.
            what: title of the progress bar; by default role and prompt.

        Raises:
            PendingBatch: if requests wait for an offline job; what is answered is cached.
            BudgetError: if the next request could exceed the budget, likewise.
            AegError: if the backend cannot be used at all.
        """
        answers: dict[int, Answer] = {}
        tasks = list(dict.fromkeys(ask.prompt.name for ask in asks))
        with ExitStack() as stack:
            if len(tasks) == 1:
                stack.enter_context(self.ledger.timed(tasks[0]))
            bar = stack.enter_context(progress_bar(len(asks), what or f"{self.what}: {', '.join(tasks)}", "request"))
            for place, answer in stack.enter_context(closing(self.stream(asks))):
                answers[place] = answer
                bar.update()
        return [answers[place] for place in range(len(asks))]

    def stream(self, asks: Sequence[Ask]) -> Generator[tuple[int, Answer]]:
        """Yield (position, answer), each as soon as it is there: cached ones first; raises as `ask` does."""
        waiting = self._jobs(asks)
        while waiting:
            missing, again = [], []
            for job in waiting:
                answer = self._cached(job)
                if answer is None:
                    missing.append(job)
                else:
                    yield from job.answered(answer)
            with closing(self._sender.send([job.request for job in missing])) as outcomes:
                for place, outcome in outcomes:
                    answer = self._judge(missing[place], outcome)
                    if answer is None:
                        again.append(missing[place])
                    else:
                        yield from missing[place].answered(answer)
            waiting = again
        self._sender.raise_pending()

    def estimate(self, asks: Sequence[Ask], completion_tokens: int | None = None) -> list[LedgerRow]:
        """Return calls, tokens and cost that asking would take, by prompt; nothing is sent.

        Args:
            asks: what would be asked.
            completion_tokens: expected of one reply; None: its `max_tokens`.
        """
        rows: dict[str, list[int]] = {}
        for job in self._jobs(asks, count=False):
            row = rows.setdefault(job.first.task, [0, 0, 0, 0])
            if self._known(job) is not None:
                row[3] += 1
                continue
            tokens = job.first.max_tokens if completion_tokens is None else completion_tokens
            row[:3] = [row[0] + 1, row[1] + prompt_tokens(job.first), row[2] + tokens]
        model = self.backend.model
        return [self.ledger.estimate(task, model, *numbers) for task, numbers in rows.items()]

    def quarantine(self, ask: Ask, failure: Failure) -> None:
        """Count a failure as quarantined and keep it, request and reply, in the quarantine file."""
        self.ledger.count(ask.prompt.name, "quarantined")
        self._keep(ask.request(), failure.kind, failure.message, failure.text)

    def prompt(self, name: str) -> Prompt:
        """Return a task's prompt: the user's where the config names one, else the shipped one.

        Raises:
            ConfigError, DataError: see `load_prompt`.
        """
        if name not in self._prompts:
            self._prompts[name] = load_prompt(name, self._overrides, self._root)
        return self._prompts[name]

    def identity(self, *prompt_names: str) -> dict[str, Any]:
        """Return what decides the results, as plain values, for fingerprints: no address and no key."""
        kind = type(self.backend)
        return {
            "backend": next((name for name in BACKENDS if BACKENDS.get(name) is kind), kind.__qualname__),
            "model": self.backend.model,
            "parameters": self.backend.parameters,
            "reasks": self.reasks,
            "prompts": {name: self.prompt(name).hash for name in sorted(prompt_names)},
        }

    def close(self) -> None:
        """Close the backend and the files; what is asked later opens them again."""
        self._sender.close()
        for part in (self._cache, self._quarantine):
            if part is not None:
                part.close()

    def __enter__(self) -> Self:
        """Return the asker."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the asker."""
        self.close()

    def _jobs(self, asks: Sequence[Ask], count: bool = True) -> list[Job]:
        """One job for each distinct request, in the order of their first ask."""
        if self._cache is not None:
            self._cache.refresh()
        jobs: dict[str, Job] = {}
        for place, ask in enumerate(asks):
            request = ask.request()
            key = reply_key(self.backend, request)
            job = jobs.setdefault(key, Job(key, ask, request, request, self.reasks))
            job.places.append(place)
            if count and len(job.places) > 1:
                self.ledger.count(request.task, "duplicates")
        return list(jobs.values())

    def _known(self, job: Job) -> tuple[Reply, Parsed] | None:
        """The first cached reply to what the job sends next that still fits."""
        if self._cache is None:
            return None
        key = job.key if job.request is job.first else reply_key(self.backend, job.request)
        for reply in self._cache.get(key):
            try:
                return reply, job.ask.parse(reply.text)
            except InvalidReply:
                self.ledger.count(job.first.task, "stale")
        return None

    def _cached(self, job: Job) -> Answer | None:
        found = self._known(job)
        if found is None:
            return None
        reply, parsed = found
        self.ledger.add(job.first.task, reply, cached=True, model=self.backend.model)
        if job.request != job.first:
            self._store([job.first], reply)
        return self._booked(job, Answer(parsed.value, cached=True, repaired=parsed.repaired))

    def _judge(self, job: Job, outcome: Reply | Failure) -> Answer | None:
        """Book an outcome and return the answer; None where it is to be asked again."""
        if self.backend.spends or isinstance(outcome, Reply):
            self.ledger.add(job.first.task, outcome, cached=not self.backend.spends, model=self.backend.model)
        failure = failure_of(outcome)
        if failure is None:
            assert isinstance(outcome, Reply)
            try:
                parsed = job.ask.parse(outcome.text)
            except InvalidReply as error:
                tokens = {"prompt_tokens": outcome.prompt_tokens, "completion_tokens": outcome.completion_tokens}
                failure = Failure("invalid", str(error), outcome.text, **tokens)
            else:
                return self._good(job, outcome, parsed)
        return self._failed(job, failure)

    def _good(self, job: Job, reply: Reply, parsed: Parsed) -> Answer:
        if parsed.cut:
            self.ledger.count(job.first.task, "partial")
            self._keep(job.request, "partial", "the reply breaks off; its whole items were used", reply.text)
        else:
            self._store(dict.fromkeys([job.first, job.request]), reply)
        cached = not self.backend.spends
        return self._booked(job, Answer(parsed.value, None, cached, parsed.repaired, parsed.cut))

    def _booked(self, job: Job, answer: Answer) -> Answer:
        if answer.repaired:
            self.ledger.count(job.first.task, "repaired")
        return answer

    def _failed(self, job: Job, failure: Failure) -> Answer | None:
        task = job.first.task
        if failure.kind == "context_length" and job.failure is not None:
            failure = job.failure  # only what was told in addition was too long
        elif job.again(failure):
            self.ledger.count(task, "reasked")
            return None
        elif failure.kind == "context_length":
            self.ledger.count(task, "context_length")
            return Answer(None, failure)
        self.quarantine(job.ask, failure)
        return Answer(None, failure)

    def _store(self, requests: Iterable[Request], reply: Reply) -> None:
        """Cache a reply that was paid for under each of the requests that it answers, by one write."""
        if self._cache is not None and self.backend.spends:
            self._cache.put(self.backend, requests, reply)

    def _keep(self, request: Request, kind: str, message: str, text: str) -> None:
        if self._quarantine is not None:
            about = {"task": request.task, "subject": request.subject, "kind": kind, "message": message}
            self._quarantine.append([about | {"model": self.backend.model, "request": asked(request), "reply": text}])
