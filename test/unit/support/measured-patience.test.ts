import assert from 'node:assert/strict'
import { test } from 'node:test'
import { factorOf } from '../../support/measured-patience.ts'

for (const { machine, startsMs, factor } of [
  { machine: 'a quick one', startsMs: [30, 31, 29, 35, 32], factor: 1 },
  { machine: 'one that stands still once', startsMs: [40, 41, 900, 40, 40], factor: 1 },
  { machine: 'a slow one', startsMs: [96, 88, 90, 101, 92], factor: 2.3 },
  { machine: 'one that is busy throughout', startsMs: [5_000, 4_000, 6_000, 5_000, 40], factor: 30 },
])
  test(`the limit of a wait follows the machine: ${machine}`, () => assert.equal(factorOf(startsMs), factor))
