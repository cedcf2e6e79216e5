/*
 * Follows "Under systemd" of docs/operations.md, without systemd itself: the commands of the handbook as root, and the service and
 * its commands as its user, who has no home folder. Needs root on Linux. Each change of the machine is made in a mount namespace,
 * and ends with it.
 */
import { execFileSync } from 'node:child_process'
import { expect, it, onTestFinished } from 'vitest'
import { textOf } from '../support/operations.ts'
import { compileCache, projectFolder } from '../support/process.ts'
import { blocksOf } from '../support/readme.ts'
import { temporaryFolder } from '../support/service.ts'
import { newPostgresDatabase } from '../support/shared-postgres.ts'

const handbook = textOf('docs/operations.md')
const [, underSystemd = ''] = handbook.split('### Under systemd')
const [installation, restoring] = blocksOf(underSystemd.split('###')[0]).map(({ text }) => text)

/** The lines of a block that need neither systemd nor the registry of npm. */
const runnable = (block = '') =>
  block
    .split('\n')
    .filter((line) => !/^(?:npm|systemctl|journalctl) /.test(line))
    .join('\n')

/** The command of a unit, as systemd would run it. */
function commandOf(unit: string): string {
  const [, environment = ''] = /^Environment=(.+)$/m.exec(textOf(unit)) ?? []
  const [, command = ''] = /^ExecStart=(.+)$/m.exec(textOf(unit)) ?? []
  return `cd /opt/conservatory && exec runuser -u conservatory -- env PORT=0 ${environment} ${command}`
}

/** Runs a script as root in a mount namespace, with empty folders in place of those that the handbook writes to. */
function asRoot(script: string): string {
  const { path: folder, remove } = temporaryFolder()
  onTestFinished(remove)
  const setUp = `set -eu
    cp -a /etc '${folder}/etc'
    mount --bind '${folder}/etc' /etc
    for place in /opt /var/lib /var/backups /etc/systemd/system /usr/local/bin; do mount -t tmpfs none "$place"; done
    mkdir /opt/conservatory
    mount --bind '${projectFolder}' /opt/conservatory
    # The forms of the handbook say sudo, and root needs none.
    sudo() { "$@"; }
    cd /opt/conservatory
    ${script}`
  return execFileSync('unshare', ['--mount', '--propagation', 'private', 'bash', '-c', setUp], {
    env: { PATH: process.env['PATH'], ...compileCache },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

it('runs each command as the user of the service, beside the service and while it is stopped', async () => {
  const target = await newPostgresDatabase()
  const output = asRoot(`${runnable(installation)}
    [ ! -e "$(getent passwd conservatory | cut -d: -f6)" ]
    install -d -o conservatory -m 700 /var/lib/conservatory
    mkfifo /opt/notices
    (${commandOf('ops/conservatory.service')}) >/dev/null 2>/opt/notices & service=$!
    exec 3</opt/notices
    read -r line <&3
    [[ $line == *'listens on'* ]]
    sudo conservatory keys list
    (${commandOf('ops/conservatory-backup.service')})
    kill $service && wait $service || :
    file=$(ls /var/backups/conservatory/*.db)
    ${runnable(restoring).replace(/\S+\.db/, '"$file"')}
    sudo conservatory migrate --from sqlite:/var/lib/conservatory/conservatory.db --to '${target}'
    echo "backup: $file"
    echo "owners: $(stat -c %U /var/lib/conservatory/* /var/backups/conservatory/* | sort -u)"`)
  expect(output).toMatch(/^cv_\w+ .*owner/m)
  expect(output).toMatch(/^backup: \S+\/conservatory-\d{8}T\d{6}Z\.db$/m)
  expect(output).toMatch(/^owners: conservatory$/m)
})
