from django.core.mail import send_mail
from django.http import HttpResponse


def thank(request):
    send_mail('Thank you', 'Your question is heard.', 'polls@example.com', ['joe@example.com'])
    return HttpResponse(status=202)
