/**
 * Deletes the binaries of uWebSockets.js for other systems: 54 files of 257 MB are installed, and
 * one is loaded. Runs behind each installation and build; plain JavaScript, as nothing is compiled yet.
 */

import { existsSync, readdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const FOLDER = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../node_modules/uWebSockets.js')
const OURS = `uws_${process.platform}_${process.arch}_`

if (existsSync(FOLDER))
  for (const name of readdirSync(FOLDER))
    if (name.startsWith('uws_') && name.endsWith('.node') && !name.startsWith(OURS)) rmSync(path.join(FOLDER, name))
