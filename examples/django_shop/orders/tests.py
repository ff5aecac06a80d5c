"""The shop's own tests: `python manage.py test`."""

from django.test import TestCase, TransactionTestCase

from headway.django import hw
from headway.django.models import StoredJob
from orders.models import Order
from orders.tasks import count_orders


class Ordering(TestCase):
    """In a transaction that is rolled back: its jobs are seen through Django's own connection."""

    def test_an_order_enqueues_its_jobs(self) -> None:
        answer = self.client.post(
            "/orders", {"email": "ada@example.com"}, content_type="application/json"
        )
        self.assertEqual(answer.status_code, 201)
        self.assertEqual(
            sorted(StoredJob.objects.values_list("task", flat=True)),
            ["charge", "orders.tasks.count_orders", "send_receipt"],
        )

    def test_a_refused_order_enqueues_nothing(self) -> None:
        with self.assertRaises(KeyError):
            self.client.post("/orders", {}, content_type="application/json")
        self.assertFalse(StoredJob.objects.exists())


class Working(TransactionTestCase):
    """With commits: a worker sees the jobs and runs them."""

    def test_the_jobs_of_an_order_run(self) -> None:
        url = "/orders"
        self.client.post(url, {"email": "ada@example.com"}, content_type="application/json")
        report = count_orders.enqueue()
        hw.run_until_idle_sync()
        order = Order.objects.get()
        self.assertTrue(order.charged)
        self.assertEqual(order.receipt, f"receipts/{order.pk}.pdf")
        report.refresh()
        self.assertEqual(report.return_value, 1)
