/** The report as one page that needs nothing else. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { OWN_ROOT } from '../servers/build.ts'
import type { FaultsDocument } from './document.ts'

export function renderPage(document: FaultsDocument): string {
  const read = (name: string) => readFileSync(path.join(OWN_ROOT, 'bench/faults', name), 'utf8')
  const parts: Readonly<Record<string, string>> = {
    'page.js': read('page.js'),
    // "<" would end the script element early.
    data: JSON.stringify(document).replaceAll('<', '\\u003c'),
  }
  return read('page.html').replaceAll(/\/\*\{(.+?)\}\*\/|"\{(data)\}"/g, (_, name = 'data') => parts[name] ?? '')
}
