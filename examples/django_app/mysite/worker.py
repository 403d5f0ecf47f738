"""What `foliot worker mysite.worker:app` loads: Django first, which finds all jobs, then the app."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
django.setup()

from mysite.jobs import app  # noqa: E402 - not before Django is set up

__all__ = ["app"]
