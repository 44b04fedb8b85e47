/** An item of a list such as `hour=3,minute=0`; the value is undefined if the item has no `=`. */
export interface KeyValue {
  readonly key: string
  readonly value: string | undefined
}

/**
 * Splits `key=value,…` as uWSGI does (core/utils.c, uwsgi_kvlist_parse). Commas separate items, and a backslash makes the
 * next character part of the item. The first `=` ends the key; the value may contain more of them. Blanks count, and empty
 * items are dropped. uWSGI also ignores items without `=`; here, the caller decides.
 */
export function parseKeyvals(text: string): KeyValue[] {
  return itemsOf(text)
    .filter(item => item !== '')
    .map(item => {
      const [, key, value] = /^((?:\\.|[^\\=])*)=(.*)$/s.exec(item) ?? []
      // in uWSGI's second pass, over the key, a backslash swallows the next character
      return key === undefined ? { key: item, value } : { key: key.replace(/\\./gs, ''), value }
    })
}

function itemsOf(text: string): string[] {
  const items = ['']
  for (const [part] of text.matchAll(/\\.|[^\\]/gs)) {
    if (part === ',') items.push('')
    else items.push(`${items.pop()}${part.length > 1 && part.startsWith('\\') ? part.slice(1) : part}`)
  }
  return items
}

/** Writes a list that `parseKeyvals` reads as these items. No key contains a backslash or `=`. */
export function formatKeyvals(items: readonly KeyValue[]): string {
  return items.map(({ key, value }) => escaped(value === undefined ? key : `${key}=${value}`)).join(',')
}

function escaped(item: string): string {
  return item.replace(/[\\,]/g, '\\$&')
}
