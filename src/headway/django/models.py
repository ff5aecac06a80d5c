"""A model of the view `headway.jobs`, for the admin and for queries. It cannot be written."""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from headway.core.state import State
from headway.django.app import schema


class StoredJob(models.Model):
    """A job, live or finished, as it is stored now."""

    id = models.UUIDField(primary_key=True)
    task = models.TextField()
    queue = models.TextField()
    step = models.TextField()
    state = models.TextField(choices=[(state.label, state.label) for state in State])
    priority = models.IntegerField()
    attempt = models.IntegerField()
    max_attempts = models.IntegerField()
    run_at = models.DateTimeField()
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    worker = models.BigIntegerField(null=True)
    input = models.JSONField()
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)
    headers = models.JSONField(null=True)
    keys = models.JSONField(null=True)
    progress = models.JSONField(null=True)
    expires_at = models.DateTimeField(null=True)

    class Meta:
        """Django's migrations and flushes leave the view alone."""

        managed = False
        db_table = f'"{schema()}"."jobs"'
        verbose_name = "job"
        default_permissions: ClassVar[Any] = ("view",)

    def __str__(self) -> str:
        return f"{self.task} {self.id}"
