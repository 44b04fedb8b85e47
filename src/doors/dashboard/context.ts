import type { HtmlEscapedString } from 'hono/utils/html'
import type { ActionName } from '../../admin/operate/actions.js'
import type { Form } from './access/form.js'
import type { Right } from './access/rights.js'
import type { Notice } from './access/sessions.js'
import type { Visitor } from './access/visitor.js'
import type { DaemonLink } from './daemon-link.js'
import type { ReadableSpools } from './readable-spools.js'

/** The visitor who looks at a page. */
export interface Viewer extends Visitor {
  /** The value of the hidden field `csrf` in every form. */
  readonly csrf: string
  /** True if the page may show a button for the action. The server checks again when the form arrives. */
  may(action: ActionName): boolean
}

/** All that a page is made from. */
export interface PageContext {
  readonly viewer: Viewer
  /**
   * Its snapshot, and `spools`, contain no more than the viewer may see. `ask` returns the daemon's answer as it is; null to
   * `config`, unless the viewer is an admin.
   */
  readonly daemon: Pick<DaemonLink, 'history' | 'ask' | 'snapshot'>
  readonly spools: ReadableSpools
  readonly path: string
  readonly query: URLSearchParams
  /** The fields of the form that was sent, for pages that are made from one; empty on all others. */
  readonly form: Form
  /** The result of the viewer's last act; undefined if no result is left to show. */
  readonly notice: Notice | undefined
}

/** A page with markup, as hono's JSX makes it. */
type Markup = HtmlEscapedString | Promise<HtmlEscapedString>

/** Content that is not markup. A task's body always has a `filename`, which makes it a download. */
export interface Raw {
  readonly type: string
  readonly body: string | Buffer
  /** The name under which a browser saves the content. */
  readonly filename?: string
}

/** One row of the table of pages. `path` is a pattern of hono, such as `/spools/:spool`. */
export interface Page {
  readonly path: string
  readonly right: Right
  /** @param params the values of the parameters in `path` @throws PageError */
  render(context: PageContext, params: Readonly<Record<string, string>>): Markup | Raw | Promise<Raw>
}
