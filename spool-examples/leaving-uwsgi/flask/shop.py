from flask import Flask, request
from uwsgidecorators import spool, timer

app = Flask(__name__)


@spool
def send_receipt(arguments):
    print('a receipt for %s' % arguments['to'], flush=True)


@timer(60)
def count_stock(number):
    print('the stock is counted', flush=True)


@app.post('/orders')
def order():
    send_receipt(to=request.form['to'])
    return 'thank you\n', 202
