import { printable } from '../../../base/printable.js'
import { displayName, type Ref } from '../../../base/task/ref.js'

/** Tasks by their names, each a link to its page. */
export function Names({ names }: { names: ReadonlyArray<{ readonly ref: Ref; readonly href: string }> }) {
  return (
    <ul>
      {names.map(({ ref, href }) => (
        <li>
          <a class="path" href={href}>
            {printable(displayName(ref))}
          </a>
        </li>
      ))}
    </ul>
  )
}
