import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { parseAllDocuments } from 'yaml'
import { projectFolder } from './process.ts'

/** The text of a file of the checkout. */
export function textOf(path: string): string {
  return readFileSync(join(projectFolder, path), 'utf8')
}

/** The documents of a YAML file, with `<<` resolved. @throws Error if the file is not valid YAML, or repeats a key */
export function documentsOf(path: string): readonly unknown[] {
  return parseAllDocuments(textOf(path), { merge: true }).map((document) => {
    if ('errors' in document && document.errors[0] !== undefined) throw document.errors[0]
    return 'toJS' in document ? document.toJS() : undefined
  })
}

/** The settings of the service, from the table of docs/settings.md. */
export function knownSettings(): ReadonlySet<string> {
  const listed = [...textOf('docs/settings.md').matchAll(/^\| `([A-Z_]+)`\s+\|/gm)].map(([, name]) => name ?? '')
  return new Set(listed)
}

const texts = Type.Array(Type.String())
const environment = Type.Record(Type.String(), Type.Union([Type.String(), Type.Null()]))

const composeSchema = Type.Object({
  services: Type.Record(
    Type.String(),
    Type.Object(
      {
        image: Type.String(),
        build: Type.Optional(Type.String()),
        profiles: Type.Optional(texts),
        ports: Type.Optional(texts),
        volumes: Type.Optional(texts),
        tmpfs: Type.Optional(texts),
        command: Type.Optional(texts),
        entrypoint: Type.Optional(texts),
        read_only: Type.Optional(Type.Boolean()),
        cap_drop: Type.Optional(texts),
        cap_add: Type.Optional(texts),
        security_opt: Type.Optional(texts),
        init: Type.Optional(Type.Boolean()),
        secrets: Type.Optional(texts),
        env_file: Type.Optional(Type.Array(Type.Object({ path: Type.String(), required: Type.Boolean() }))),
        restart: Type.Optional(Type.Literal('unless-stopped')),
        logging: Type.Optional(
          Type.Object({
            driver: Type.Literal('json-file'),
            options: Type.Object({
              'max-size': Type.String({ pattern: '^\\d+m$' }),
              'max-file': Type.String({ pattern: '^\\d+$' }),
            }),
          }),
        ),
        stop_grace_period: Type.Optional(Type.String({ pattern: '^\\d+s$' })),
        deploy: Type.Optional(Type.Object({ replicas: Type.Integer() }, { additionalProperties: false })),
        environment: Type.Optional(environment),
        healthcheck: Type.Optional(
          Type.Object(
            {
              test: Type.Optional(texts),
              interval: Type.Optional(Type.String()),
              start_period: Type.Optional(Type.String()),
              disable: Type.Optional(Type.Boolean()),
              timeout: Type.Optional(Type.String()),
              retries: Type.Optional(Type.Integer()),
            },
            { additionalProperties: false },
          ),
        ),
        depends_on: Type.Optional(
          Type.Record(
            Type.String(),
            Type.Object({
              condition: Type.Union([Type.Literal('service_healthy'), Type.Literal('service_completed_successfully')]),
            }),
          ),
        ),
      },
      { additionalProperties: false },
    ),
  ),
  secrets: Type.Record(Type.String(), Type.Object({ environment: Type.String() }, { additionalProperties: false })),
  volumes: Type.Record(Type.String(), Type.Null()),
})

/** The content of `compose.yaml`. @throws Error when it has anything unexpected */
export function composeFile() {
  return checked(composeSchema, documentsOf('compose.yaml')[0])
}

const probe = Type.Object({
  httpGet: Type.Object({ path: Type.String(), port: Type.String() }),
  periodSeconds: Type.Integer(),
  failureThreshold: Type.Integer(),
})
const named = Type.Object({ name: Type.String() })

const deploymentSchema = Type.Object({
  apiVersion: Type.Literal('apps/v1'),
  spec: Type.Object({
    replicas: Type.Integer({ minimum: 2 }),
    selector: Type.Object({ matchLabels: Type.Object({ app: Type.String() }) }),
    template: Type.Object({
      metadata: Type.Object({
        labels: Type.Object({ app: Type.String() }),
        annotations: Type.Record(Type.String(), Type.String()),
      }),
      spec: Type.Object({
        terminationGracePeriodSeconds: Type.Integer(),
        securityContext: Type.Object({ runAsNonRoot: Type.Literal(true), runAsUser: Type.Integer() }),
        containers: Type.Tuple([
          Type.Object({
            image: Type.String(),
            ports: Type.Array(Type.Object({ name: Type.String(), containerPort: Type.Integer() })),
            envFrom: Type.Array(Type.Object({ secretRef: Type.Optional(named), configMapRef: Type.Optional(named) })),
            env: Type.Array(Type.Object({ name: Type.String(), value: Type.String() })),
            startupProbe: probe,
            livenessProbe: probe,
            readinessProbe: probe,
            resources: Type.Object({ requests: environment, limits: environment }),
            securityContext: Type.Object({
              allowPrivilegeEscalation: Type.Literal(false),
              readOnlyRootFilesystem: Type.Literal(true),
              capabilities: Type.Object({ drop: Type.Tuple([Type.Literal('ALL')]) }),
            }),
            volumeMounts: Type.Array(
              Type.Object({ name: Type.String(), mountPath: Type.String(), subPath: Type.Optional(Type.String()) }),
            ),
          }),
        ]),
        volumes: Type.Array(
          Type.Union([
            Type.Object({ name: Type.String(), configMap: named }, { additionalProperties: false }),
            Type.Object(
              { name: Type.String(), emptyDir: Type.Object({ sizeLimit: Type.String({ pattern: '^\\d+[MG]i$' }) }) },
              { additionalProperties: false },
            ),
          ]),
        ),
      }),
    }),
  }),
})

/** The Deployment of `ops/kubernetes.yaml`. @throws Error if a part of it is missing or has another type */
export function deployment() {
  return checked(deploymentSchema, kubernetesObject('Deployment', 'conservatory'))
}

/** An object of `ops/kubernetes.yaml` by its kind and name, or undefined. */
export function kubernetesObject(kind: string, name: string): unknown {
  const metadata = Type.Object({ kind: Type.Literal(kind), metadata: Type.Object({ name: Type.Literal(name) }) })
  return documentsOf('ops/kubernetes.yaml').find((document) => Value.Check(metadata, document))
}

/** Checks that a parsed value fits a schema, and returns it. @throws Error that names the first wrong place */
export function checked<T extends TSchema>(schema: T, value: unknown) {
  const fault = Value.Errors(schema, value).First()
  if (fault) throw new Error(`${fault.path}: ${fault.message}`)
  return Value.Decode(schema, value)
}
