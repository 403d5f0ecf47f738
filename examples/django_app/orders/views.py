"""The order and the job that writes its invoice: both are there, or neither."""

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponseBadRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt

from orders.jobs import write_invoice
from orders.models import Order


@csrf_exempt
def place_order(request: HttpRequest) -> JsonResponse | HttpResponseBadRequest:
    amount = request.POST.get("amount", "")
    if not amount.isdecimal():
        return HttpResponseBadRequest("amount is not a number")
    with transaction.atomic():
        order = Order.objects.create(customer=request.POST.get("customer", ""), amount=int(amount))
        write_invoice.options(connection=connection).submit(order.pk)
    return JsonResponse({"order": order.pk}, status=202)


def show_order(request: HttpRequest, number: int) -> JsonResponse:
    order = get_object_or_404(Order, pk=number)
    return JsonResponse({"customer": order.customer, "invoice": order.invoice})
