import { Plain } from '../views/layout.js'

/** One sentence, of why there is no other page. */
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
