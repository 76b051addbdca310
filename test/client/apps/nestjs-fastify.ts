import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { AppModule } from './nest-module.ts';
import { report } from './options.ts';

const app = await NestFactory.create(AppModule, new FastifyAdapter(), { logger: false });
await app.listen(0, '127.0.0.1');
report('nestjs-fastify', Number(new URL(await app.getUrl()).port));
