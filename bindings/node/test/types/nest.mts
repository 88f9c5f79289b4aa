// An app of NestJS with the guard of the README, which `package.test.mjs` writes to `guard.mts`.

import 'reflect-metadata'

import { Controller, Get, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'

import { RateLimitGuard } from './guard.mjs'

@Controller()
class HelloController {
  @Get()
  hello(): string {
    return 'hello'
  }
}

@Module({ controllers: [HelloController] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: false })
app.useGlobalGuards(new RateLimitGuard())
await app.listen(0, '127.0.0.1')
