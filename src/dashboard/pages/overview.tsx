import type { PageContext } from '../context.js'
import { Layout } from './layout.js'

/** All spools of the daemon, in numbers. */
export async function overviewPage({ daemon, spools }: PageContext) {
  const { spools: taken } = await daemon.snapshot()
  return (
    <Layout title="Overview">
      <table>
        <thead>
          <tr>
            <th>Spool</th>
            <th>Due</th>
            <th>Running</th>
            <th>Waiting</th>
            <th>Dead</th>
          </tr>
        </thead>
        <tbody>
          {taken.map(({ directory, tasks, dead }) => (
            <tr>
              <td>{spools.all.find(each => each.directory === directory)?.id ?? directory}</td>
              <td>{tasks.due}</td>
              <td>{tasks.running}</td>
              <td>{tasks.waiting}</td>
              <td>{dead.count}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Layout>
  )
}
