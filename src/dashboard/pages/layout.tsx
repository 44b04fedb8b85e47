import type { Child } from 'hono/jsx'
import type { HtmlEscapedString } from 'hono/utils/html'
import { raw } from 'hono/utils/html'

interface LayoutProps {
  readonly title: string
  readonly children?: Child
}

/** What every page has around it. */
export function Layout({ title, children }: LayoutProps): HtmlEscapedString | Promise<HtmlEscapedString> {
  return (
    <>
      {raw('<!doctype html>')}
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <title>{title} – spoold</title>
        </head>
        <body>
          <main>
            <h1>{title}</h1>
            {children}
          </main>
        </body>
      </html>
    </>
  )
}
