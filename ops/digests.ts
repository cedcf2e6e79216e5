import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'

/*
 * node ops/digests.ts FILE…: puts the digest beside the version of each image and action in the files, as the registry of images
 * and GitHub have it now. The workflow `release` runs this before it builds the image, and publishes the difference. A digest is
 * not in the repository, because somebody would have to read each digest at each new version.
 */
const run = (command: string, ...args: readonly string[]): string =>
  execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim()

/** @throws Error if an answer is no digest, for example because a tag does not exist */
function required(digest: string | undefined, form: RegExp, name: string): string {
  if (digest === undefined || !form.test(digest)) throw new Error(`There is no digest for ${name}. Check its version.`)
  return digest
}

function digestOfImage(name: string): string {
  const digest = run('docker', 'buildx', 'imagetools', 'inspect', name, '--format', '{{.Manifest.Digest}}')
  return required(digest, /^sha256:[0-9a-f]{64}$/, name)
}

function commitOfAction(repository: string, tag: string): string {
  const refs = [`refs/tags/${tag}`, `refs/tags/${tag}^{}`]
  const lines = run('git', 'ls-remote', `https://github.com/${repository}`, ...refs).split('\n')
  // The second line of an annotated tag names its commit.
  return required(lines.at(-1)?.split('\t')[0], /^[0-9a-f]{40}$/, `${repository}@${tag}`)
}

for (const file of process.argv.slice(2)) {
  const text = readFileSync(file, 'utf8')
    // Without a tag, the name is that of the image that is built here.
    .replaceAll(
      /^(FROM .*?|\s+image: )([\w./-]+:[\w.-]+)(?=\s)/gm,
      (_, before, name) => `${before}${name}@${digestOfImage(name)}`,
    )
    .replaceAll(
      /(\buses: )([\w-]+\/[\w-]+)@(v[\d.]+)$/gm,
      (_, before, repository, tag) => `${before}${repository}@${commitOfAction(repository, tag)} # ${tag}`,
    )
  writeFileSync(file, text)
}
