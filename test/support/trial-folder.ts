/** A folder of deploy/compose made ready as its page says, by the page's own lines, with a trial CA. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { mustRun } from './run-command.ts'

const PAGE = path.resolve(import.meta.dirname, '../../../docs/operations/containers.md')
const DEPLOY_PAGE = path.resolve(import.meta.dirname, '../../../docs/operations/deploy.md')

/** @param from where the page copies from */
export async function trialFolder(from: string, folder: string): Promise<void> {
  const trialCa = blockWith(DEPLOY_PAGE, 'openssl req -x509')
    .replace('cd /etc/chancery\n', '')
    .replace(/^chown.*\n?/m, '')
  const lines = blockWith(PAGE, 'cp -r deploy/compose')
    .replaceAll('deploy/compose', from)
    .replaceAll('/srv/chancery', folder)
  const [copies = '', secrets = ''] = lines.split(/(?<=^cd .*\n)/m)
  await mustRun('sh', ['-euc', `${copies}\n${trialCa}\n${secrets}`])
}

/** The block of shell lines with this in it. */
function blockWith(page: string, text: string): string {
  const blocks = [...readFileSync(page, 'utf8').matchAll(/^( *)```sh\n([\s\S]*?)^\1```/gm)].map(
    ([, , block = '']) => block,
  )
  const found = blocks.find((block) => block.includes(text))
  if (found === undefined) throw new Error(`${page} has no block with ${text}`)
  return found
}
