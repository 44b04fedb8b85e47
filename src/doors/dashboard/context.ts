import type { HtmlEscapedString } from 'hono/utils/html'
import type { ActionName } from '../../admin/operate/actions.js'
import type { Form } from './access/form.js'
import type { Right } from './access/rights.js'
import type { Notice } from './access/sessions.js'
import type { Visitor } from './access/visitor.js'
import type { DaemonLink } from './daemon-link.js'
import type { ReadableSpools } from './readable-spools.js'

/** Who looks at a page. */
export interface Viewer extends Visitor {
  /** A hidden field `csrf` of every form has it. */
  readonly csrf: string
  /** Whether a button for it makes sense; the server asks again. */
  may(action: ActionName): boolean
}

/** What a page is made from. */
export interface PageContext {
  readonly viewer: Viewer
  /** It says, and they show, no more than the viewer may see. */
  readonly daemon: Pick<DaemonLink, 'history' | 'ask' | 'snapshot'>
  readonly spools: ReadableSpools
  readonly path: string
  readonly query: URLSearchParams
  /** What a form has sent, for pages that are made from one. */
  readonly form: Form
  /** What the viewer's last act led to. */
  readonly notice: Notice | undefined
}

/** A page with markup, as hono's JSX makes it. */
type Markup = HtmlEscapedString | Promise<HtmlEscapedString>

/** Anything else than markup: a task's body only with a name, which makes it a download. */
export interface Raw {
  readonly type: string
  readonly body: string | Buffer
  /** The name under which it is saved. */
  readonly filename?: string
}

/** One row of the table of pages. `path` is as hono has it: `/spools/:spool`. */
export interface Page {
  readonly path: string
  readonly right: Right
  /** @param params those of `path` @throws PageError */
  render(context: PageContext, params: Readonly<Record<string, string>>): Markup | Raw | Promise<Raw>
}
