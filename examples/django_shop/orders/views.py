"""Orders over HTTP."""

import json

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt

from orders.models import Order
from orders.tasks import charge, count_orders, send_receipt


@csrf_exempt
@transaction.atomic
def order(request: HttpRequest) -> HttpResponse:
    """Store an order with its jobs: all of them, or nothing."""
    placed = Order.objects.create(email=json.loads(request.body)["email"])
    charge.using(conn="default").enqueue_sync(placed.pk)
    send_receipt.using(conn="default").enqueue_sync(placed.pk)
    count_orders.enqueue()
    return JsonResponse({"id": placed.pk}, status=201)


def show(request: HttpRequest, order_id: int) -> HttpResponse:
    """Show an order."""
    found = get_object_or_404(Order, pk=order_id)
    return JsonResponse({"charged": found.charged, "receipt": found.receipt})
