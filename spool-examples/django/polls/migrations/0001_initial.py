from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            'Question', [('id', models.BigAutoField(primary_key=True)), ('text', models.CharField(max_length=200))]
        )
    ]
