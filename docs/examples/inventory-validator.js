/**
 * A validator module (docs/validators.md): a host is whose the inventory says it is.
 *
 * The inventory is a JSON file that some other program writes: names, each with the accounts that may have a certificate
 * for it. It is read for every challenge, so a change counts at once.
 *
 *     {"build7.corp.example": ["https://acme.corp.example/acct/01938c4e-0000-7000-8000-000000000000"]}
 */

import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'

export class Inventory {
  static type = 'inventory-01'
  static wildcard = true

  #file

  /** What it throws refuses the start. */
  constructor({ file }) {
    if (typeof file !== 'string') throw new Error('settings.file must name the inventory')
    JSON.parse(readFileSync(file, 'utf8'))
    this.#file = file
  }

  async validate({ identifier, wildcard, accountUrl }, { signal }) {
    const inventory = JSON.parse(await readFile(this.#file, { encoding: 'utf8', signal }))
    const name = wildcard ? `*.${identifier.value}` : identifier.value
    const accounts = Object.hasOwn(inventory, name) ? inventory[name] : []
    const evidence = [{ step: 'inventory', name, accounts: accounts.length }]
    if (accounts.includes(accountUrl)) return { ok: true, evidence }
    return { ok: false, detail: `the inventory does not give ${name} to this account`, evidence }
  }
}
