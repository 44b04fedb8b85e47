import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { describe, it } from 'node:test'
import { parseAst } from 'rolldown/parseAst'
import { TestProcess } from './helpers/process.js'
import { isRequirement } from './helpers/requires.js'
import { ROOT, workspace } from './helpers/workspace.js'

/** Section → claim → `file: suite › title` → what that test needs. */
type Claims = Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>>>

const CLAIMS: Claims = JSON.parse(readFileSync(join(ROOT, 'test/claims.json'), 'utf8'))
/** Sections of which `npm test` has a test for each claim. */
const SHORT_SECTIONS = ['promises', 'README']
const PROMISES = 14

const TESTS = Object.values(CLAIMS)
  .flatMap(section => Object.values(section))
  .flatMap(tests => Object.entries(tests))

describe('each claim', () => {
  it('names a test, and no promise is missing', () => {
    assert.equal(Object.keys(CLAIMS.promises ?? {}).length, PROMISES)
    for (const [section, claims] of Object.entries(CLAIMS))
      for (const [claim, tests] of Object.entries(claims))
        assert.notDeepEqual(tests, {}, `${section}: ${claim}`)
  })

  it('names tests by titles that they have', () => {
    const wrong = TESTS.flatMap(([test]) => {
      const { file, parts } = partsOf(test)
      const path = sourceOf(file)
      if (!existsSync(path)) return [`${test}: ${path} is missing`]
      const { literals, templates } = titlesOf(path)
      const isTitle = (part: string) =>
        literals.has(part) ||
        templates.some(template => isMadeBy(template, part, literals)) ||
        (part.includes('…') && [...literals].some(literal => patternOf(part.split('…')).test(literal)))
      return parts.filter(part => !isTitle(part)).map(part => `${file}: no title is ${part}`)
    })
    assert.deepEqual(wrong, [])
  })

  it('says what its tests need, by the names that tests use', () => {
    const wrong = TESTS.flatMap(([test, needs]) =>
      needs.filter(need => !isRequirement(need)).map(need => `${test}: ${need}`),
    )
    assert.deepEqual(wrong, [])
  })

  it('has a test that npm test runs if it is a promise or a part of README', async () => {
    const { isShort } = await import(join(ROOT, 'test/lanes.mjs'))
    const left = SHORT_SECTIONS.flatMap(section =>
      Object.entries(CLAIMS[section] ?? {})
        .filter(([, tests]) => !Object.keys(tests).some(test => isShort(`${partsOf(test).file}.test.js`)))
        .map(([claim]) => `${section}: ${claim}`),
    )
    assert.deepEqual(left, [])
  })
})

describe('docs/security.md', () => {
  /** Returns what the claims of a section begin with, up to the first full stop. */
  const namesIn = (section: string) =>
    Object.keys(CLAIMS[section] ?? {}).map(claim => claim.split('. ')[0] ?? '')
  const rows = readFileSync(join(ROOT, 'docs/security.md'), 'utf8').match(/^\| \*\*.*$/gm) ?? []
  const named = rows.flatMap(row => (row.split(' | ').at(-1) ?? '').replace(/ \|$/, '').split('; '))
  const promises = named.flatMap(name => /^promise (\d+)$/.exec(name)?.[1] ?? [])
  const dangers = named.filter(name => !name.startsWith('promise '))

  it('names in its last column only claims that exist', () => {
    assert.ok(rows.length > 10)
    assert.deepEqual(
      promises.filter(name => !namesIn('promises').includes(name)),
      [],
    )
    assert.deepEqual(
      dangers.filter(name => !namesIn('38. Nothing dangerous').includes(name)),
      [],
    )
  })

  it('leaves out no finding about security', () => {
    const findings = namesIn('38. Nothing dangerous').filter(name => /^S\d/.test(name))
    assert.deepEqual(
      findings.filter(name => !dangers.includes(name)),
      [],
    )
  })
})

function partsOf(test: string): { readonly file: string; readonly parts: readonly string[] } {
  const [, file = '', title = ''] = /^(\S+): (.+)$/s.exec(test) ?? []
  assert.notEqual(title, '', `${test}: expected FILE: SUITE › TITLE`)
  return { file, parts: title.split(' › ') }
}

const sourceOf = (file: string) => join(ROOT, 'test', `${file}.test.ts`)

interface Titles {
  /** Every string, since many titles stand in tables. */
  readonly literals: ReadonlySet<string>
  /** The fixed parts of template literals that are titles. */
  readonly templates: ReadonlyArray<readonly string[]>
}

interface Source extends Titles {
  /** The files of this repository that it imports, which may have its suites. */
  readonly imports: readonly string[]
}

const sources = new Map<string, Source>()

function readSource(path: string): Source {
  const known = sources.get(path)
  if (known !== undefined) return known
  const literals = new Set<string>()
  const templates: string[][] = []
  const imports: string[] = []
  for (const node of nodesIn(parseAst(readFileSync(path, 'utf8'), { lang: 'ts' }))) {
    const { type, value, key, source, callee, arguments: [first] = [] } = node
    if (type === 'Literal' && typeof value === 'string') literals.add(value)
    if (type === 'Property' && key?.name !== undefined) literals.add(key.name)
    if (type === 'CallExpression' && /^(it|describe|test|suite)$/.test(callee?.name ?? '') && first?.quasis)
      templates.push(first.quasis.map(quasi => quasi.value.cooked))
    if (type === 'ImportDeclaration' && typeof source?.value === 'string' && source.value.startsWith('.'))
      imports.push(resolve(dirname(path), source.value.replace(/\.js$/, '.ts')))
  }
  const read = { literals, templates, imports: imports.filter(each => existsSync(each)) }
  sources.set(path, read)
  return read
}

/** Returns what may be a title in a file. */
function titlesOf(path: string): Titles {
  const seen = new Set([path])
  for (const each of seen) for (const imported of readSource(each).imports) seen.add(imported)
  const all = [...seen].map(readSource)
  return {
    literals: new Set(all.flatMap(({ literals }) => [...literals])),
    templates: all.flatMap(({ templates }) => templates),
  }
}

/** The parts of a node of the syntax tree that are looked at. */
interface Node {
  readonly type?: string
  readonly value?: unknown
  readonly name?: string
  readonly key?: Node
  readonly source?: Node
  readonly callee?: Node
  readonly arguments?: readonly Node[]
  readonly quasis?: ReadonlyArray<{ readonly value: { readonly cooked: string } }>
}

function* nodesIn(tree: object): Generator<Node> {
  yield tree
  for (const child of Object.values(tree))
    if (typeof child === 'object' && child !== null) yield* nodesIn(child)
}

/** True if the template makes the title. What fills a template without words of its own has to be in the source as well. */
function isMadeBy(template: readonly string[], title: string, literals: ReadonlySet<string>): boolean {
  const filled = patternOf(template).exec(title)?.slice(1)
  if (filled === undefined) return false
  return (
    /[a-z]{3}/i.test(template.join(' ')) || filled.every(text => literals.has(text) || /^\d+$/.test(text))
  )
}

/** Returns the pattern of these texts with anything between them. */
function patternOf(texts: readonly string[]): RegExp {
  const literally = texts.map(text => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  return new RegExp(`^${literally.join('(.*?)')}$`, 's')
}

const RAN = { file: 'a/b', title: 'suite › does 7 things', outcome: 'passed' }
const NEVER_THERE = 'python3.0'

describe('the last step of .ci/run', () => {
  const judge = async (tests: object, results: readonly object[]) => {
    const directory = workspace()
    writeFileSync(join(directory, 'claims.json'), JSON.stringify({ promises: { 'It is so': tests } }))
    writeFileSync(join(directory, 'results'), results.map(result => `${JSON.stringify(result)}\n`).join(''))
    const program = [join(ROOT, 'test/claims.mjs'), 'results', 'claims.json']
    const judging = new TestProcess(process.execPath, program, { cwd: directory })
    const code = await judging.code()
    return { code, output: judging.output }
  }

  it('passes when all tests of the claims ran', async () => {
    const { code, output } = await judge(
      { 'a/b: suite › does 7 things': [], 'a/b: suite › does … things': ['root'] },
      [RAN],
    )
    assert.deepEqual(
      [code, output],
      [0, 'claims: 1, on 2 tests: 2 passed, 0 could not run here, 0 failed or were left out\n'],
    )
  })

  const BROKEN: ReadonlyArray<readonly [what: string, results: readonly object[], reason: string]> = [
    ['did not run', [{ ...RAN, file: 'a/c' }], 'it did not run'],
    ['failed on one Node', [RAN, { ...RAN, outcome: 'failed' }], 'it failed'],
    ['was skipped', [{ ...RAN, outcome: 'skipped', reason: 'needs rain' }], 'it was skipped: needs rain'],
    [
      'is in a suite that was skipped',
      [{ file: 'a/b', title: 'suite', outcome: 'skipped' }],
      'it was skipped: without a reason',
    ],
    [
      'ran in part',
      [RAN, { ...RAN, title: 'suite › does 8 things', outcome: 'skipped', reason: 'no' }],
      'it was skipped: no',
    ],
  ]
  for (const [what, results, reason] of BROKEN)
    it(`fails when a test ${what}, though what it needs is there`, async () => {
      const { code, output } = await judge({ 'a/b: suite › does … things': ['bash'] }, results)
      assert.equal(code, 1)
      assert.ok(output.includes(`  promises: It is so\n    a/b: suite › does … things: ${reason}\n`), output)
    })

  it('names the tests that could not run because this machine lacks something, and passes', async () => {
    const skipped = { file: 'a/b', title: 'suite', outcome: 'skipped', reason: `needs ${NEVER_THERE}` }
    const { code, output } = await judge({ 'a/b: suite › does 7 things': [NEVER_THERE] }, [skipped])
    assert.equal(code, 0)
    assert.ok(output.includes(`a/b: suite › does 7 things: needs ${NEVER_THERE}\n`), output)
    assert.match(output, /^claims: 1, on 1 tests: 0 passed, 1 could not run here, 0 /m)
  })

  it('fails when there are no results, or no claims', async () => {
    assert.equal((await judge({ 'a/b: suite › does 7 things': [] }, [])).code, 1)
    assert.equal((await judge({}, [RAN])).code, 1)
  })
})
