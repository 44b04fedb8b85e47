import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import stringWidth from 'string-width'
import { keyOf } from '#src/doors/cli/top/keys.js'
import { press } from '#src/doors/cli/top/press.js'
import { draw, pageOf, rateLine } from '#src/doors/cli/top/screen.js'
import { initialState, type Look, looked, type Row, type TopState } from '#src/doors/cli/top/state.js'
import { TABS, type TabName } from '#src/doors/cli/top/tabs.js'
import type { TaskState } from '#src/engines/spool/admin/task-view.js'

const PAGE = 5
// biome-ignore lint/suspicious/noControlCharactersInRegex: the style of the cursor's line
const INVERSE = /^\x1b\[7m due .* t1 +\x1b\[27m$/

const task = (id: string, state: TaskState = 'due'): Row => ({
  id,
  cells: [state, 'now', '3 s', '', '', id],
  task: { ref: id, state },
})

function lookAt(tab: TabName, rows: readonly Row[], more: Partial<Look> = {}): Look {
  return { spool: '/spool', tab, filter: '', atMs: 0, statuses: [], rows, scope: '', ...more }
}

function stateWith(tab: TabName, rows: readonly Row[], more: Partial<TopState> = {}): TopState {
  return looked({ ...initialState(['/spool', '/other']), tab, ...more }, lookAt(tab, rows))
}

/** Presses keys in turn. @returns the last step */
function pressed(state: TopState, ...keys: string[]) {
  let step: ReturnType<typeof press> = { state }
  for (const key of keys) step = press(step.state, key, PAGE)
  return step
}

const TEN = Array.from({ length: 10 }, (_, i) => task(`t${i}`))

describe('keys', () => {
  for (const [keys, cursor] of [
    [['j'], 1],
    [['down', 'down', 'up'], 1],
    [['k'], 0],
    [['pagedown'], 5],
    [['pagedown', 'pagedown', 'pagedown'], 9],
    [['end', 'pageup'], 4],
    [['end', 'home'], 0],
    [['space', 'x'], 2],
  ] as const)
    it(`${keys.join(' ')} put the cursor on line ${cursor}`, () => {
      assert.equal(pressed(stateWith('waiting', TEN), ...keys).state.cursor, cursor)
    })

  for (const [keys, tab] of [
    [['right'], 'running'],
    [['tab', 'tab'], 'waiting'],
    [['left'], 'schedules'],
    [['shift-tab', 'right'], 'overview'],
    [['9', '1'], 'overview'],
    [['2'], 'running'],
    [['3'], 'waiting'],
    [['4'], 'retrying'],
    [['5'], 'dead'],
    [['6'], 'held'],
    [['7'], 'workers'],
    [['8'], 'names'],
    [['9'], 'schedules'],
    [['9', 'right'], 'overview'],
  ] as const)
    it(`${keys.join(' ')} open the tab ${tab}, and look at it`, () => {
      const { state, effect } = pressed(stateWith('overview', []), ...keys)
      assert.deepEqual([state.tab, state.look, effect], [tab, undefined, { kind: 'look' }])
    })

  it('[ and ] turn to other spools, if there are any', () => {
    const turned = pressed(stateWith('dead', TEN), ']').state
    assert.deepEqual([turned.spool, turned.tab, turned.look], ['/other', 'dead', undefined])
    assert.equal(pressed(turned, ']').state.spool, '/spool')
    assert.equal(pressed(turned, '[').state.spool, '/spool')
    const one = looked(initialState(['/spool']), lookAt('overview', []))
    assert.match(pressed(one, ']').state.message, /one spool/)
  })

  for (const [key, kind] of [
    ['q', 'quit'],
    ['ctrl-c', 'quit'],
    ['ctrl-z', 'suspend'],
    ['ctrl-l', 'redraw'],
    ['r', 'look'],
  ] as const)
    it(`${key}: ${kind}`, () => {
      assert.equal(pressed(stateWith('waiting', TEN), key).effect?.kind, kind)
    })

  it('Enter shows the task on the line, if there is one', () => {
    assert.deepEqual(pressed(stateWith('waiting', TEN), 'j', 'enter').effect, { kind: 'show', row: TEN[1] })
    assert.equal(pressed(stateWith('workers', [{ id: '1', cells: ['1'] }]), 'enter').effect, undefined)
    assert.equal(pressed(stateWith('waiting', []), 'enter').effect, undefined)
  })

  it('? shows the list of keys, in which moving keys move and any other key goes back', () => {
    const help = pressed(stateWith('waiting', TEN), '?').state
    assert.equal(help.mode.kind, 'text')
    for (const key of ['down', 'end', 'pageup', 'k', 'home', 'space'])
      assert.equal(pressed(help, key).state.mode.kind, 'text', key)
    assert.equal(pressed(help, 'q').state.mode.kind, 'list')
    assert.equal(pressed(help, 'q').effect, undefined)
    assert.equal(pressed(help, 'ctrl-c').effect?.kind, 'quit')
  })

  it('say so if they do nothing', () => {
    const { state, effect } = pressed(stateWith('waiting', TEN), 'w')
    assert.match(state.message, /^w does nothing here; \? lists the keys$/)
    assert.equal(effect, undefined)
  })

  it('are found by their text or name, and bytes that are no key are ignored', () => {
    for (const [text, pressedKey, expected] of [
      ['a', { name: 'a' }, 'a'],
      ['R', { name: 'r', shift: true }, 'R'],
      ['日', {}, '日'],
      ['*', {}, '*'],
      [' ', { name: 'space' }, 'space'],
      ['\r', { name: 'return' }, 'enter'],
      ['\x1b', { name: 'escape', meta: true }, 'escape'],
      ['\x03', { name: 'c', ctrl: true }, 'ctrl-c'],
      [undefined, { name: 'pagedown' }, 'pagedown'],
      ['\t', { name: 'tab', shift: true }, 'shift-tab'],
      ['a', { name: 'a', meta: true }, undefined],
      [undefined, { name: 'f1' }, undefined],
      ['\u202e', {}, undefined],
      ['\x1c', {}, undefined],
    ] as const)
      assert.equal(keyOf(text, pressedKey), expected, JSON.stringify([text, pressedKey]))
  })
})

describe('a filter', () => {
  it('is typed, corrected and applied', () => {
    const typing = pressed(stateWith('dead', TEN), '/', 'j', 'q', 'R', '日', 'space', 'x', 'backspace')
    assert.deepEqual(typing.state.mode, { kind: 'prompt', of: 'filter', text: 'jqR日 ' })
    assert.equal(typing.effect, undefined)
    const { state, effect } = pressed(typing.state, 'enter')
    assert.deepEqual([state.filter, state.look, effect?.kind], ['jqR日 ', undefined, 'look'])
    assert.equal(pressed(state, '/', 'ctrl-u', 'enter').state.filter, '')
    assert.equal(pressed(state, 'escape').state.filter, '')
    assert.equal(pressed(state, '3').state.filter, '', 'another tab has no filter')
  })

  it('stays as it was after Esc, and holds at most 200 characters', () => {
    const typing = pressed(stateWith('dead', TEN, { filter: 'a' }), '/', 'b', 'escape')
    assert.deepEqual([typing.state.filter, typing.state.mode.kind], ['a', 'list'])
    const long = pressed(stateWith('dead', TEN), '/', ...'x'.repeat(500)).state.mode
    assert.equal(long.kind === 'prompt' && long.text.length, 200)
  })
})

describe('a selection', () => {
  it('takes single lines, or all that are listed', () => {
    const two = pressed(stateWith('waiting', TEN), 'space', 'j', 'space').state
    assert.deepEqual([...two.selected], ['t0', 't2'])
    assert.deepEqual([...pressed(two, 'home', 'x').state.selected], ['t2'])
    assert.equal(pressed(two, '*').state.selected.size, 10)
    assert.equal(pressed(two, '*', '*').state.selected.size, 0)
    assert.equal(pressed(two, 'escape').state.selected.size, 0)
    assert.equal(pressed(two, '4').state.selected.size, 0)
    assert.equal(pressed(stateWith('workers', [{ id: '1', cells: [] }]), '*', 'space').state.selected.size, 0)
  })

  it('loses tasks that are gone, so that an act applies to nothing that is not seen', () => {
    const all = pressed(stateWith('waiting', TEN), '*').state
    const later = looked(all, lookAt('waiting', TEN.slice(3, 5)))
    assert.deepEqual([...later.selected], ['t3', 't4'])
  })
})

describe('a look', () => {
  it('leaves the cursor on its line, or as near as possible', () => {
    const state = pressed(stateWith('waiting', TEN), 'pagedown').state
    assert.equal(looked(state, lookAt('waiting', [task('new'), ...TEN])).cursor, 6)
    assert.equal(looked(state, lookAt('waiting', TEN.slice(0, 3))).cursor, 2)
    assert.equal(looked(state, lookAt('waiting', [])).cursor, 0)
  })

  it('is dropped if the screen shows something else by now', () => {
    const state = stateWith('waiting', TEN)
    for (const late of [{ tab: 'dead' as const }, { filter: 'x' }, { spool: '/other' }])
      assert.equal(looked(state, { ...lookAt('waiting', []), ...late }).look, state.look)
  })
})

describe('an act', () => {
  const dead = ['a', 'b', 'c'].map(id => task(id, 'dead'))

  for (const [key, tab, rows, text] of [
    ['R', 'dead', dead, 'requeue 3 tasks'],
    ['D', 'dead', dead, 'remove 3 tasks for good'],
    ['K', 'waiting', [task('a'), task('b', 'waiting'), task('c', 'retrying')], 'kick 3 tasks'],
    ['H', 'waiting', [task('a'), task('b')], 'hold 2 tasks'],
    ['B', 'held', [task('a', 'held'), task('b', 'parked')], 'bury 2 tasks'],
    [
      'L',
      'held',
      [task('a', 'held'), task('b', 'parked')],
      'release a, and leave 1 that is in another state',
    ],
    ['C', 'running', [task('a', 'running'), task('b', 'running')], 'cancel 2 tasks'],
  ] as const)
    it(`${key} says what it would do, and to how many: ${text}`, () => {
      const asked = pressed(stateWith(tab, rows), '*', key)
      assert.equal(asked.state.mode.kind === 'confirm' && asked.state.mode.intent.text, text)
      assert.equal(asked.effect, undefined)
      for (const no of ['n', 'enter', 'escape', 'Y', key]) {
        const left = pressed(asked.state, no)
        assert.deepEqual(
          [left.state.mode.kind, left.state.message, left.effect],
          ['list', 'nothing was done', undefined],
        )
        assert.equal(left.state.selected.size, rows.length)
      }
      const { state, effect } = pressed(asked.state, 'y')
      assert.equal(effect?.kind, 'act')
      assert.equal(state.selected.size, 0)
    })

  it("applies to the task on the cursor's line if nothing is selected", () => {
    const { effect } = pressed(stateWith('dead', dead), 'j', 'R', 'y')
    assert.deepEqual(effect?.kind === 'act' && effect.intent.rows, [dead[1]])
  })

  for (const [key, rows, message] of [
    ['R', [task('a')], /^requeue is for tasks that are dead$/],
    ['L', [task('a', 'dead')], /^release is for tasks that are held$/],
    ['D', [], /^remove: there is no task on this line$/],
    ['C', [task('a')], /^cancel is for tasks that are running$/],
  ] as const)
    it(`${key} says why it does nothing: ${message}`, () => {
      const { state, effect } = pressed(stateWith('waiting', rows), key)
      assert.match(state.message, message)
      assert.deepEqual([state.mode.kind, effect], ['list', undefined])
    })

  it('pauses and resumes a spool or, on the tab of names, a name', () => {
    const intentOf = (tab: TabName, key: string) => {
      const { effect } = pressed(stateWith(tab, [{ id: 'mail', cells: ['mail'] }]), key, 'y')
      return effect?.kind === 'act'
        ? [effect.intent.action, effect.intent.args, effect.intent.text]
        : undefined
    }
    assert.deepEqual(intentOf('overview', 'P'), ['pause', {}, 'pause all tasks of /spool'])
    assert.deepEqual(intentOf('overview', 'U'), [
      'resume',
      { all: 'on' },
      'resume all that is paused of /spool',
    ])
    assert.deepEqual(intentOf('names', 'P'), ['pause', { key: 'task=mail' }, 'pause tasks named mail'])
    assert.match(pressed(stateWith('names', []), 'P').state.message, /^pause: there is no name on this line/)
    assert.deepEqual(intentOf('names', 'U'), ['resume', { key: 'task=mail' }, 'resume tasks named mail'])
  })

  for (const [key, action, text] of [
    ['K', 'run-schedule', 'run task tick'],
    ['P', 'pause-schedule', 'pause task tick'],
    ['U', 'resume-schedule', 'resume task tick'],
    ['D', 'remove-schedule', 'remove task tick'],
  ] as const)
    it(`${key} on the tab of schedules: ${action}`, () => {
      const rows = [{ id: 'tick', cells: ['5 s', 'every 5 s', 'task tick'] }]
      const { effect } = pressed(stateWith('schedules', rows), key, 'y')
      const intent = effect?.kind === 'act' ? effect.intent : assert.fail('nothing is done')
      assert.deepEqual([intent.action, intent.args, intent.text], [action, { schedule: 'tick' }, text])
      assert.match(pressed(stateWith('schedules', []), key).state.message, /no schedule on this line/)
      assert.match(pressed(stateWith('schedules', rows), 'H').state.message, /is not an action on schedules/)
    })

  it('sets the number of processes to what is typed', () => {
    const { effect } = pressed(stateWith('workers', []), 'S', '+', '2', 'enter')
    assert.deepEqual(effect?.kind === 'act' && effect.intent.args, { to: '+2' })
    assert.match(
      pressed(stateWith('workers', []), 'S', 'x', 'enter').state.message,
      /expected N, \+N, -N or auto, got "x"/,
    )
    assert.equal(pressed(stateWith('workers', []), 'S', '3', 'escape').effect, undefined)
  })
})

describe('the screen', () => {
  const nasty = [
    task('a\x1b[31m\x07', 'held'),
    {
      ...task('日本語のとても長い名前'.repeat(9)),
      cells: ['due', 'now', '1 s', '', '日本語'.repeat(30), '👩‍👩‍👧'.repeat(40)],
    },
    { ...task('b'), cells: ['due', 'now', '1 s', '', 'é'.repeat(200), '\u202eevil'] },
  ]

  for (const columns of [1, 12, 20, 40, 80, 140, 300])
    for (const rows of [1, 3, 8, 24, 40])
      it(`fills ${columns} × ${rows} and no more, whatever it shows`, () => {
        for (const { name } of TABS)
          for (const keys of [[], ['?'], ['/', 'x'], ['*', 'D'], ['end'], ['S']]) {
            const state = pressed(stateWith(name, [...TEN, ...nasty]), ...keys).state
            const lines = draw(state, { columns, rows }, true)
            assert.equal(lines.length, rows, name)
            for (const line of lines) {
              // biome-ignore lint/suspicious/noControlCharactersInRegex: styles are all that a terminal gets
              const bare = line.replace(/\x1b\[\d+m/g, '')
              assert.doesNotMatch(bare, /[\p{Cc}\u202e]/u)
              assert.ok(stringWidth(bare) <= columns, `${stringWidth(bare)}: ${bare}`)
            }
          }
      })

  it('has no colors if the terminal has none, and still shows the cursor, the tab and what is selected', () => {
    const state = pressed(stateWith('waiting', TEN), 'space').state
    const lines = draw(state, { columns: 80, rows: 24 }, false)
    const inverse = lines.filter(line => line.includes('\x1b'))
    assert.equal(inverse.length, 1)
    assert.match(inverse[0] ?? '', INVERSE)
    assert.match(lines.join('\n'), /^\*due .* t0 +$/m)
    assert.match(lines[2] ?? '', /\[3 Waiting\]/)
    assert.match(draw(state, { columns: 140, rows: 24 }, false)[2] ?? '', /\[3 Waiting\].*6 Held and parked/)
  })

  it('shows the end of a path that is too long for its line', () => {
    const spool = `/${'very/long/'.repeat(20)}spool`
    const state = { ...initialState([spool]), look: lookAt('overview', [], { spool }) }
    assert.match(draw(state, { columns: 60, rows: 9 }, false)[0] ?? '', /^….*long\/spool: looking …$/)
  })

  it('shows the page that has the cursor', () => {
    const many = Array.from({ length: 100 }, (_, i) => task(`t${i}`))
    const size = { columns: 80, rows: 24 }
    const shown = (state: TopState) => draw(state, size, false).join('\n')
    assert.equal(pageOf(size), 18)
    const state = stateWith('waiting', many)
    assert.match(shown(state), / t0 .* t17 /s)
    assert.doesNotMatch(shown(state), / t18 /)
    const end = press(state, 'end', 18).state
    assert.match(shown(end), / t90 .* t99 /s)
    assert.match(shown(end), /^100 of 100$/m)
  })

  it('draws how many tasks were done between looks', () => {
    const samples = [0, 10, 10, 90, 100].map((done, i) => ({ atMs: i * 1000, daemon: '1', done }))
    assert.deepEqual(rateLine(samples, 80), ['  done/s      ▂▁█▂ at most 80'])
    assert.deepEqual(rateLine(samples.slice(0, 1), 80), [])
    const other = [...samples, { atMs: 5000, daemon: '2', done: 4 }]
    assert.match(rateLine(other, 80)[0] ?? '', / ▂▁█▂▁ at most 80$/)
    const many = Array.from({ length: 240 }, (_, i) => ({ atMs: i * 1000, daemon: '1', done: i * 1e6 }))
    assert.ok((rateLine(many, 80)[0] ?? '').length <= 80)
  })
})
