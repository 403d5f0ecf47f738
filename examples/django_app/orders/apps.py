"""Wherever Django is set up, the jobs of all its apps are known."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class OrdersConfig(AppConfig):
    name = "orders"

    def ready(self) -> None:
        autodiscover_modules("jobs")
