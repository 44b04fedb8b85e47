from flask import Flask, current_app, request
from spoold.contrib.flask import Spoold

app = Flask(__name__)
app.config['SHOP'] = 'The Corner Shop'
app.config['SPOOLD_ENQUEUE_TO'] = 'spool'  # a directory
spoold = Spoold(app)


@spoold.task(name='send-receipt', max_retries=5)
def send_receipt(to, amount):
    print('%s: a receipt over %d for %s' % (current_app.config['SHOP'], amount, to))


@app.post('/orders')
def order():
    job = spoold.schedule(send_receipt, request.form['to'], amount=42)
    return {'job': str(job.id)}, 202
