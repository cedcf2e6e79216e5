let loading: Promise<typeof import('./card-jobs.ts')> | undefined

/** The jobs that read cards. They are loaded when they are first needed: at the start of the service, they would take 20 ms. */
export function cardJobs() {
  loading ??= import('./card-jobs.ts')
  return loading
}
