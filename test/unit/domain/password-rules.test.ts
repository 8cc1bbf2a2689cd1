/** Passwords of one's own choice. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { passwordFault } from '../../../src/domain/password-rules.ts'
import { words } from '../../support/words.ts'

const CONTEXT = ['ada.lovelace', 'ada.lovelace@corp.example']
const isTaken = (password: string) => passwordFault(password, CONTEXT) === undefined

test('length is what counts: words, spaces and other scripts are fine', () => {
  for (const good of [
    'vacant orchid tram 61',
    'tGz8fQpL2xVw9sKd',
    'зелёный трамвай утром',
    '正しい馬電池ホッチキスの歌は長い',
  ])
    assert.ok(isTaken(good), good)
})

test('too short and too long are refused with the bound', () => {
  assert.match(passwordFault('tGz8fQpL2xVw9s', CONTEXT) ?? '', /at least 15/)
  assert.match(passwordFault('tGz8fQpL'.repeat(33), CONTEXT) ?? '', /at most 256/)
})

test('what every guesser tries is refused', () => {
  for (const bad of words`
    passwordpassword Password1234567890 qwertyuiopasdfghjkl aaaaaaaaaaaaaaaaaaaa abcabcabcabcabcabcabc
    abcdefghijklmnopqrstuvwxyz Chancery-Admin-2026! ada.lovelace.corp.example LovelaceLovelace99
    letmein-welcome-secret
  `)
    assert.ok(!isTaken(bad), bad)
})
