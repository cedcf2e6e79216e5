import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { projectFolder } from '../support/process.ts'

/*
 * Triggers each alert of ops/alerts.yaml once, with Prometheus' own tool for tests of rules.
 * Needs promtool of Debian's package prometheus.
 */

it.each([
  ['check', 'rules', 'ops/alerts.yaml'],
  ['test', 'rules', 'test/fixtures/alerts/induced.yaml'],
])('promtool %s %s %s succeeds', (...words) => {
  expect(execFileSync('promtool', words, { cwd: projectFolder, encoding: 'utf8' })).toContain('SUCCESS')
})
