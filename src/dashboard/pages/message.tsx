import { Layout } from './layout.js'

/** One sentence, of why there is no other page. */
export function messagePage(text: string) {
  return (
    <Layout title="Not possible">
      <p>{text}</p>
      <p>
        <a href="/">Overview</a>
      </p>
    </Layout>
  )
}
