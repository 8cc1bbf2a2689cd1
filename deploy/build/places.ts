/** The places of an installation in the form that Debian's packages and systemd take. Pure. */

import { PATHS, PLACES, type Place, type PlaceName } from '../../src/installation/places.ts'

const isPlace = (name: string): name is PlaceName => Object.hasOwn(PATHS, name)

/** Puts the path of a place where a script of a package has its name, as in `@config@`. */
export function filledIn(script: string): string {
  return script.replaceAll(/@(\w+)@/g, (_, name: string) => {
    if (!isPlace(name)) throw new Error(`@${name}@ is no place of src/installation/places.ts`)
    return PATHS[name]
  })
}

const octal = (mode: number) => mode.toString(8).padStart(4, '0')

/** A colon keeps the owner and the mode of a folder that is there. */
const FOLDER = `d ${PATHS.folder} :${octal(PLACES.folder.mode)} :${PLACES.folder.owner} :${PLACES.folder.group} -`

const copied: readonly Place[] = Object.values(PLACES).filter((place: Place) => place.isCopied)
const RIGHTS = copied.map(({ path, mode, owner, group }) => `z ${path} ${octal(mode)} ${owner} ${group} -`)

const withLines = (text: string, lines: readonly string[]): string =>
  `${[...text.split('\n').filter((line) => line.startsWith('#')), ...lines].join('\n')}\n`

/** `deploy/tmpfiles.d/chancery.conf` with the folder that packages make. */
export const withFolder = (text: string): string => withLines(text, [FOLDER])

/** `deploy/rights.conf` with the files that operators copy to their places. */
export const withRights = (text: string): string => withLines(text, RIGHTS)
