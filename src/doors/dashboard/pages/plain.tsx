import type { Child } from 'hono/jsx'
import { Document } from './framed.js'

/** A page without navigation, for visitors who are not known, and for a message that stands alone. */
function Plain({ title, children }: { title: string; children: Child }) {
  return (
    <Document title={title}>
      <header class="top">
        <a class="brand" href="/">
          spoold
        </a>
      </header>
      <main id="content" tabindex={-1}>
        <h1>{title}</h1>
        {children}
      </main>
    </Document>
  )
}

/** @param fault why the token that was typed in is refused */
export function loginPage(fault?: string) {
  return (
    <Plain title="Log in">
      {fault === undefined ? null : <p role="alert">{fault}</p>}
      <form method="post" action="/login" class="login">
        <label>
          Token
          <input type="password" name="token" autocomplete="current-password" required autofocus />
        </label>
        <button type="submit">Log in</button>
        <p class="quiet">
          Whoever runs the daemon makes tokens, with <code>spoold token</code>.
        </p>
      </form>
    </Plain>
  )
}

/** A page with one sentence: why there is no other page. */
export function messagePage(text: string) {
  return (
    <Plain title="Not possible">
      <p class="said">{text}</p>
      <p>
        <a href="/">Overview</a>
      </p>
    </Plain>
  )
}
