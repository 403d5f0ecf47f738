"""The least that Django needs. Foliot keeps its jobs in the same database, so that they share transactions."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
DATABASE = os.environ.get("DATABASE", str(BASE_DIR / "db.sqlite3"))

SECRET_KEY = "for this example only"
DEBUG = True
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "mysite.urls"
INSTALLED_APPS = ["orders"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATABASE,
        "OPTIONS": {"timeout": 10, "transaction_mode": "IMMEDIATE"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

FOLIOT_URL = f"sqlite:///{DATABASE}"
