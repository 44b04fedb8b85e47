from django.urls import path
from polls import views

urlpatterns = [path('ask/<text>', views.ask)]
