import { runAside } from '../http/aside.js'
import { Exporter } from './exporter.js'
import type { FromExporter, ToExporter } from './messages.js'

/** The entry point of the exporter's process. The daemon forks it and sends the first message. */
runAside<ToExporter, FromExporter>(send => new Exporter(send))
