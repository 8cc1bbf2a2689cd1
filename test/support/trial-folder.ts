/** A folder of deploy/compose made ready as its page says, by the page's own lines, with a trial CA. */

import { pageBlock } from './page-blocks.ts'
import { mustRun } from './run-command.ts'

/** @param from where the page copies from */
export async function trialFolder(from: string, folder: string): Promise<void> {
  const trialCa = pageBlock('docs/operations/deploy.md', 'trial-issuer', { 'cd /etc/chancery\n': '' }).replace(
    /^chown.*\n?/m,
    '',
  )
  const places = { 'deploy/compose': from, '/srv/chancery': folder }
  const lines = pageBlock('docs/operations/containers.md', 'compose-folder', places)
  const [copies = '', secrets = ''] = lines.split(/(?<=^cd .*\n)/m)
  await mustRun('sh', ['-euc', `${copies}\n${trialCa}\n${secrets}`])
}
