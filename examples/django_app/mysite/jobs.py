"""The one Foliot app of the project. The jobs are in the `jobs.py` of each Django app."""

from django.conf import settings

from foliot import Foliot

app = Foliot(settings.FOLIOT_URL)
