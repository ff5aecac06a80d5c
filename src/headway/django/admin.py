"""Jobs in Django's admin, to read only. The command line and `hw.jobs` retry and cancel them."""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.paginator import Paginator
from django.utils.functional import cached_property

from headway.django.app import database
from headway.django.models import StoredJob

_MOST_COUNTED = 10_000


class _CheapPaginator(Paginator):
    """Counts no further than the pages that somebody may turn to: there may be millions of jobs."""

    @cached_property
    def count(self) -> int:
        """Return the number of jobs, or the most that is counted."""
        return len(self.object_list.values_list("pk")[:_MOST_COUNTED])


@admin.register(StoredJob)
class StoredJobAdmin(admin.ModelAdmin):
    """A list of the newest jobs, and a page for each with everything that is stored."""

    list_display = ("id", "task", "step", "queue", "state", "attempt", "created_at", "finished_at")
    list_filter = ("state",)
    search_fields = ("id",)
    search_help_text = "The id of a job, or the whole name of a task or queue"
    ordering = ("-id",)
    list_per_page = 50
    paginator = _CheapPaginator
    show_full_result_count = False
    actions = None

    def get_queryset(self, request: Any) -> Any:
        """Return the jobs of the database that has them."""
        return super().get_queryset(request).using(database())

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> Any:
        """Return one job by its id, or the jobs of a task or a queue."""
        term = search_term.strip()
        if not term:
            return queryset, False
        try:
            return queryset.filter(pk=UUID(term)), False
        except ValueError:
            found = queryset.filter(task=term)
            return (found if found[:1] else queryset.filter(queue=term)), False

    def has_add_permission(self, request: Any) -> bool:
        """Return False: code enqueues jobs."""
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Return False: the rows belong to workers."""
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        """Return False: retention deletes finished jobs."""
        return False
