/** `npm run docs`: writes the places of an installation into the files of systemd-tmpfiles. */

import { readFileSync, writeFileSync } from 'node:fs'
import { withFolder, withRights } from './places.ts'

for (const [name, render] of Object.entries({ 'tmpfiles.d/chancery.conf': withFolder, 'rights.conf': withRights })) {
  /** Relative to the compiled file in `compiled/deploy/build`. */
  const file = new URL(`../../../deploy/${name}`, import.meta.url)
  writeFileSync(file, render(readFileSync(file, 'utf8')))
  console.log(`wrote deploy/${name}`)
}
