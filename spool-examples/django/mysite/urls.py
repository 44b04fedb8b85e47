from django.urls import path
from polls import mail, views

urlpatterns = [path('ask/<text>', views.ask), path('thank', mail.thank)]
