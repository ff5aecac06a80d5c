"""The shop's pages."""

from django.contrib import admin
from django.urls import path
from orders import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders", views.order),
    path("orders/<int:order_id>", views.show),
]
