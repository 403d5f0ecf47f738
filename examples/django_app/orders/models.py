"""An order, and the invoice that follows."""

from django.db import models


class Order(models.Model):
    customer = models.CharField(max_length=100)
    amount = models.PositiveIntegerField()
    invoice = models.CharField(max_length=200, default="")

    def __str__(self) -> str:
        return f"order {self.pk} of {self.customer}"
