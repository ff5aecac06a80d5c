"""The shop's jobs. Headway imports this module of every installed app."""

from headway.django import hw
from orders.models import Order

try:
    from django.tasks import task  # Django 6
except ModuleNotFoundError:
    from django_tasks import task


@hw.task(queue="orders", retry=5)
def charge(order_id: int) -> None:
    """Charge an order. A plain function runs in a thread and may use the ORM as a view does."""
    Order.objects.filter(pk=order_id).update(charged=True)


@hw.task(queue="mail", timeout="1m")
async def send_receipt(order_id: int) -> str:
    """Send a receipt. An async function uses the async ORM."""
    order = await Order.objects.aget(pk=order_id)
    order.receipt = f"receipts/{order_id}.pdf"
    await order.asave(update_fields=["receipt"])
    return f"sent to {order.email}"


@task(queue_name="reports")
def count_orders() -> int:
    """Count the orders: written for Django's own interface, which other backends have, too."""
    return Order.objects.count()
