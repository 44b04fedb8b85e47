import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './workspace.js'

/** A fenced block. The words after the language say what tests do with it: `run`, `attended`, `file=NAME`. */
interface Block {
  readonly language: string
  readonly marks: readonly string[]
  readonly text: string
}

/** Matches a fenced block. Blocks in a list are indented. */
const FENCE = /^( *)```([^\n]*)\n(.*?)^\1```$/gms

function blocksIn(markdown: string): Block[] {
  return [...markdown.matchAll(FENCE)].map(([, indent = '', info = '', lines = '']) => {
    const [language = '', ...marks] = info.split(' ')
    return { language, marks, text: lines.replaceAll(new RegExp(`^${indent}`, 'gm'), '') }
  })
}

/** A page of the documentation, parsed as far as the tests need it. */
export class Page {
  /** The path of the page below the project's root. */
  readonly name: string
  readonly text: string
  readonly blocks: readonly Block[]
  /** The text without the fenced blocks. */
  readonly prose: string

  constructor(name: string) {
    this.name = name
    this.text = readFileSync(join(ROOT, name), 'utf8')
    this.blocks = blocksIn(this.text)
    this.prose = this.text.replace(FENCE, '')
  }

  /** The texts in backquotes. */
  get spans(): string[] {
    return [...this.prose.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span)
  }

  /** Returns the text and the blocks between a heading and the next one. */
  section(level: number, heading: string): { text: string; blocks: readonly Block[] } {
    const start = `${'#'.repeat(level)} ${heading}\n`
    const [, after = ''] = this.text.split(`\n${start}`)
    const [text = ''] = after.split(/^#{1,4} /m)
    return { text, blocks: blocksIn(text) }
  }

  headings(level: number): string[] {
    const pattern = new RegExp(`^#{${level}} (.*)$`, 'gm')
    return [...this.prose.matchAll(pattern)].map(([, title = '']) => title)
  }

  /** The targets of the page's links. */
  get links(): string[] {
    return [...this.prose.matchAll(/\]\(([^)\s]+)\)|^\[.+\]: (\S+)$/gm)].map(
      ([, inline, reference]) => inline ?? reference ?? '',
    )
  }

  /** The valid `#…` targets: headings in the form of GitHub's anchors. */
  get anchors(): Set<string> {
    const titles = [1, 2, 3, 4].flatMap(level => this.headings(level))
    return new Set(
      titles.map(title =>
        title
          .toLowerCase()
          .replace(/[^\p{L}\p{N}\s_-]/gu, '')
          .replaceAll(' ', '-'),
      ),
    )
  }
}

/** Returns README, CHANGELOG, GitHub's pointer page, docs/ and the pages of the examples. */
export function allPages(): Page[] {
  const docs = readdirSync(join(ROOT, 'docs')).map(name => `docs/${name}`)
  const examples = readdirSync(join(ROOT, 'spool-examples'), { recursive: true, encoding: 'utf8' }).map(
    name => `spool-examples/${name}`,
  )
  return [
    'README.md',
    'CHANGELOG.md',
    '.github/SECURITY.md',
    ...docs,
    ...examples.filter(name => !name.includes('node_modules')),
  ]
    .filter(name => name.endsWith('.md'))
    .map(name => new Page(name))
}
