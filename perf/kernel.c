/* The filter's inner loop in hand-written C: a lower bound for its cost on one core.

   The algebra is that of odefilter/unrolled/step.py and odefilter/unrolled/gaussian.py, operation by operation:
   predict the rows [A L, sigma sqrt(Q)], condition exactly on the ODE by modified Gram-Schmidt, triangularise by modified Gram-Schmidt,
   Potter's update with the data, the energy, and the running quasi-MLE of the diffusion from residuals without the
   data's part.  Structural zeros are skipped: each row has a mask of its columns, known to the compiler, and all loops over columns are unrolled.

   Particles are lanes of a vector.  A block of VECTORS vectors runs through all samples before the next block starts;
   within a sample the vectors are independent, which keeps the processor's pipelines full.

   State arrays are those of Filter.start (one row per number, particle last), in the order mean, factor, Jacobian,
   diffusion memory, variance, data part.  Numbers that do not change in time (1 / mass, constant slopes) are computed once
   per block: the compiler of the JAX program is free to do the same. */

#include <math.h>

#ifndef LANES
#if defined(__AVX512F__)
#define LANES 8
#elif defined(__AVX__)
#define LANES 4
#else
#define LANES 2
#endif
#endif
#ifndef VECTORS
#define VECTORS 8 /* 1 to 16 differ by 5 % on an AMD Zen 3 */
#endif

typedef double v __attribute__((vector_size(8 * LANES)));
typedef long long mask_v __attribute__((vector_size(8 * LANES)));

#define PARTICLES (LANES * VECTORS)
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define HAS(mask, j) ((mask) >> (j) & 1)

static const double FLOOR = 1e-200;

#if defined(__GLIBC__) && defined(__AVX512F__) && LANES == 8
#include <immintrin.h>
v _ZGVeN8v_log(v);
INLINE v vlog(v x) { return _ZGVeN8v_log(x); }
INLINE v vsqrt(v x) { return (v)_mm512_sqrt_pd((__m512d)x); }
#elif defined(__GLIBC__) && defined(__AVX2__) && LANES == 4
#include <immintrin.h>
v _ZGVdN4v_log(v);
INLINE v vlog(v x) { return _ZGVdN4v_log(x); }
INLINE v vsqrt(v x) { return (v)_mm256_sqrt_pd((__m256d)x); }
#else
INLINE v vlog(v x)
{
    UNROLL for (int l = 0; l < LANES; l++) x[l] = log(x[l]);
    return x;
}
INLINE v vsqrt(v x)
{
    UNROLL for (int l = 0; l < LANES; l++) x[l] = sqrt(x[l]);
    return x;
}
#endif

INLINE v all(double x) { return x - (v){}; }

INLINE v choose(mask_v which, v yes, v no) { return (v)(((mask_v)yes & which) | ((mask_v)no & ~which)); }

INLINE v load(const double *row, long particle)
{
    v x;
    __builtin_memcpy(&x, row + particle, sizeof x);
    return x;
}

INLINE void store(double *row, long particle, v x) { __builtin_memcpy(row + particle, &x, sizeof x); }

/* 1 / square, and 0 for a quantity without variance. */
INLINE v reciprocal(v square) { return choose(square > 0, 1 / square, all(0)); }

INLINE v positive(v x) { return choose(x > FLOOR, x, all(FLOOR)); }

/* Covariance of the quantities of two rows over their common columns. */
INLINE v dot(const v *a, const v *b, int columns)
{
    v total = {};
    UNROLL for (int j = 0; j < 12; j++) if (HAS(columns, j)) total += a[j] * b[j];
    return total;
}

/* row - gain * direction; the row holds zeros where it had no entry. */
INLINE void remove_part(v *row, v gain, const v *direction, int columns)
{
    UNROLL for (int j = 0; j < 12; j++) if (HAS(columns, j)) row[j] -= gain * direction[j];
}

INLINE v absolute(v x) { return choose(x < 0, -x, x); }

/* The size of a residual, at most twice that without the part that data put there. */
INLINE v without_data(v residual, v from_data)
{
    v size = absolute(residual), clean = 2 * absolute(residual - from_data);
    return choose(size < clean, size, clean);
}

/* A mean and the part of it that data put there, or the residuals of both. */
struct values {
    v mean, part;
};

/* One step of conditioning: removes a residual's row from another and corrects the values. */
INLINE void condition(v *row, struct values *values, const v *direction, v inverse, struct values residual, int common,
                      int columns)
{
    v gain = dot(direction, row, common) * inverse;
    remove_part(row, gain, direction, columns);
    values->mean -= gain * residual.mean;
    values->part -= gain * residual.part;
}

struct potter {
    v innovation, correction, shrink;
};

/* Energy of an observation with the given variance, and what its update needs. */
INLINE v observe(struct potter *update, v observed, v predicted, v variance, v noise)
{
    v inverse = 1 / variance;
    update->innovation = observed - predicted;
    update->correction = update->innovation * inverse;
    update->shrink = 1 / (variance + noise * vsqrt(variance));
    return 0.5 * (vlog(6.283185307179586477 * variance) + update->innovation * update->correction);
}

/* Duffing: x of order 2 with q = 3.  Components x, dx, ddx, dddx; free ones x, dx, dddx.  Columns of a predicted row:
   0-2 the old factor's, 3-6 the process noise's. */

enum { DUFFING_STATE = 16 };

struct duffing {
    v mean[4], factor[6], slope[2], total, count, variance, part;
};

struct duffing_particle {
    v c, k, k3, inverse_mass, velocity_slope, noise;
};

/* Change of dddx along solutions of the ODE when x and dx change. */
INLINE v duffing_along(v x, v dx, v slope0, v slope1, const double *scale)
{
    v ddx = slope0 * x + slope1 * dx;
    return slope0 * (scale[2] / scale[0] * scale[1] / scale[3]) * dx + slope1 * (scale[2] / scale[1] * scale[2] / scale[3]) * ddx;
}

INLINE v duffing_step(struct duffing *s, const struct duffing_particle *p, const double *scale, const double process[4][4],
                      double force, double observed, double inverse_unit)
{
    enum { X = 0x0f, DX = 0x1f, H = 0x3f, DDDX = 0x7f };

    /* Predicted mean, dynamics, residual, diffusion */
    const v *m = s->mean;
    v x_mean = m[0] + 3 * m[1] + 3 * m[2] + m[3];
    v dx_mean = m[1] + 2 * m[2] + m[3];
    v ddx_mean = m[2] + m[3];
    v dddx_mean = m[3];
    v position = x_mean * scale[0], velocity = dx_mean * scale[1];
    v square = position * position;
    v value = (force - p->c * velocity - (p->k + p->k3 * square) * position) * p->inverse_mass * (1 / scale[2]);
    v slope0 = -(p->k + 3 * p->k3 * square) * p->inverse_mass * (scale[0] / scale[2]);
    v slope1 = p->velocity_slope;
    struct values residual = {ddx_mean - value, s->part - slope0 * s->part - slope1 * s->part};
    v clean = without_data(residual.mean, residual.part);
    s->total += clean * clean * inverse_unit;
    s->count += 1;
    s->variance = positive(s->total / s->count);
    v sigma = vsqrt(s->variance);

    /* Predicted rows */
    const v *f = s->factor;
    v x_old[3] = {f[0]}, dx_old[3] = {f[1], f[2]}, dddx_old[3] = {f[3], f[4], f[5]}, ddx_old[3];
    ddx_old[0] = s->slope[0] * x_old[0] + s->slope[1] * dx_old[0];
    ddx_old[1] = s->slope[1] * dx_old[1];
    ddx_old[2] = (v){};
    v x[12] = {}, dx[12] = {}, h[12] = {}, dddx[12] = {};
    UNROLL for (int j = 0; j < 3; j++)
    {
        dddx[j] = dddx_old[j];
        h[j] = ddx_old[j] + dddx_old[j];
        dx[j] = dx_old[j] + 2 * ddx_old[j] + dddx_old[j];
        x[j] = x_old[j] + 3 * (dx_old[j] + ddx_old[j]) + dddx_old[j];
    }
    UNROLL for (int j = 0; j < 4; j++)
    {
        if (j <= 0) x[3 + j] = sigma * process[0][j];
        if (j <= 1) dx[3 + j] = sigma * process[1][j];
        if (j <= 2) h[3 + j] = sigma * process[2][j];
        dddx[3 + j] = sigma * process[3][j];
    }

    /* The residual's row, and conditioning on it */
    remove_part(h, slope0, x, X);
    remove_part(h, slope1, dx, DX);
    v inverse = reciprocal(dot(h, h, H));
    struct values x_values = {x_mean, s->part}, dx_values = {dx_mean, s->part}, dddx_values = {dddx_mean, s->part};
    condition(x, &x_values, h, inverse, residual, X, H);
    condition(dx, &dx_values, h, inverse, residual, DX, H);
    condition(dddx, &dddx_values, h, inverse, residual, H, H);
    v new_x = x_values.mean, new_dx = dx_values.mean, new_dddx = dddx_values.mean;
    v part = dddx_values.part - duffing_along(x_values.part, dx_values.part, slope0, slope1, scale);
    v new_ddx = value + slope0 * (new_x - x_mean) + slope1 * (new_dx - dx_mean);

    /* Triangular factor */
    v length2 = dot(x, x, H), length = vsqrt(length2);
    inverse = reciprocal(length2);
    v gain1 = dot(x, dx, H) * inverse, gain2 = dot(x, dddx, H) * inverse;
    v xx = length, dxx = gain1 * length, dddxx = gain2 * length;
    remove_part(dx, gain1, x, H);
    remove_part(dddx, gain2, x, H);
    length2 = dot(dx, dx, H), length = vsqrt(length2);
    gain2 = dot(dx, dddx, H) * reciprocal(length2);
    v dxdx = length, dddxdx = gain2 * length;
    remove_part(dddx, gain2, dx, H);
    v dddxdddx = vsqrt(dot(dddx, dddx, DDDX));

    /* Data: the position, whose row has one entry */
    v energy = all(0);
    if (!isnan(observed)) {
        struct potter update;
        v row = scale[0] * xx;
        energy = observe(&update, all(observed), new_x * scale[0], row * row + p->noise * p->noise, p->noise);
        v cx = row * xx, cdx = row * dxx, cdddx = row * dddxx;
        v shrink = update.shrink * row;
        xx -= cx * shrink, dxx -= cdx * shrink, dddxx -= cdddx * shrink;
        v change_x = cx * update.correction, change_dx = cdx * update.correction, change_dddx = cdddx * update.correction;
        new_x += change_x, new_dx += change_dx, new_dddx += change_dddx;
        part += change_dddx - duffing_along(change_x, change_dx, slope0, slope1, scale);
        new_ddx += slope0 * change_x + slope1 * change_dx;
    }
    s->mean[0] = new_x, s->mean[1] = new_dx, s->mean[2] = new_ddx, s->mean[3] = new_dddx;
    s->factor[0] = xx, s->factor[1] = dxx, s->factor[2] = dxdx;
    s->factor[3] = dddxx, s->factor[4] = dddxdx, s->factor[5] = dddxdddx;
    s->slope[0] = slope0, s->slope[1] = slope1;
    s->part = part;
    return energy;
}

/* Bouc-Wen: x of order 2 with q = 3, z of order 1 with q = 2.  Components x, dx, ddx, dddx, z, dz, ddz; free ones
   x, dx, z, dddx, ddz.  Columns: 0-4 the old factor's, 5-8 and 9-11 the process noise's of x and z. */

enum { BOUC_WEN_STATE = 38 };

struct bouc_wen {
    v mean[7], factor[18], slope[5], total_x, count_x, total_z, count_z, variance_x, variance_z, part_x, part_z;
};

struct bouc_wen_particle {
    v c, k, alpha, gamma, delta, inverse_mass, slope_xx, slope_xdx, slope_xz, noise;
};

INLINE v sign(v x) { return choose(x > 0, all(1), choose(x < 0, all(-1), all(0))); }

/* Change of dddx and ddz along solutions of the ODE when x, dx and z change; slopes are xx, xdx, xz, zdx, zz. */
struct along {
    v dddx, ddz;
};

INLINE struct along bouc_wen_along(v x, v dx, v z, const v *slope, const double *scale)
{
    v ddx = slope[0] * x + slope[1] * dx + slope[2] * z, dz = slope[3] * dx + slope[4] * z;
    double x_unit = scale[2] / scale[3], z_unit = scale[5] / scale[6];
    return (struct along){
        slope[0] * (x_unit / scale[0] * scale[1]) * dx + slope[1] * (x_unit / scale[1] * scale[2]) * ddx
            + slope[2] * (x_unit / scale[4] * scale[5]) * dz,
        slope[3] * (z_unit / scale[1] * scale[2]) * ddx + slope[4] * (z_unit / scale[4] * scale[5]) * dz,
    };
}

INLINE v bouc_wen_step(struct bouc_wen *s, const struct bouc_wen_particle *p, const double *scale,
                       const double process_x[4][4], const double process_z[3][3], double force, double observed,
                       const double *inverse_unit)
{
    enum {
        FACTOR = 0x01f, /* old factor's columns */
        X = 0x02f, DX = 0x06f, DDDX = 0x1ef, Z = 0x21f, DDZ = 0xe1f,
        H1 = 0x2ff, /* residual of ddx: + 5, 6, 7 and 9 */
        H2 = 0x67f, /* residual of dz: + 5, 6 and 9, 10 */
        H = H1 | H2,
    };

    /* Predicted mean, dynamics, residuals, diffusion */
    const v *m = s->mean;
    v x_mean = m[0] + 3 * m[1] + 3 * m[2] + m[3];
    v dx_mean = m[1] + 2 * m[2] + m[3];
    v ddx_mean = m[2] + m[3];
    v z_mean = m[4] + 2 * m[5] + m[6];
    v dz_mean = m[5] + m[6];
    v position = x_mean * scale[0], velocity = dx_mean * scale[1], hysteresis = z_mean * scale[4];
    v speed = absolute(velocity), size = absolute(hysteresis);
    v value_x = (force - p->c * velocity - p->k * position - hysteresis) * p->inverse_mass * (1 / scale[2]);
    v value_z =
        (p->alpha * velocity - p->gamma * speed * hysteresis - p->delta * velocity * size) * (1 / scale[5]);
    v xx_slope = p->slope_xx, xdx_slope = p->slope_xdx, xz_slope = p->slope_xz;
    v zdx_slope = (p->alpha - p->gamma * sign(velocity) * hysteresis - p->delta * size) * (scale[1] / scale[5]);
    v zz_slope = -(p->gamma * speed + p->delta * velocity * sign(hysteresis)) * (scale[4] / scale[5]);
    v part_x = s->part_x, part_z = s->part_z;
    struct values residual_x = {ddx_mean - value_x, part_x - xx_slope * part_x - xdx_slope * part_x - xz_slope * part_z};
    struct values residual_z = {dz_mean - value_z, part_z - zdx_slope * part_x - zz_slope * part_z};
    v clean_x = without_data(residual_x.mean, residual_x.part), clean_z = without_data(residual_z.mean, residual_z.part);
    s->total_x += clean_x * clean_x * inverse_unit[0];
    s->total_z += clean_z * clean_z * inverse_unit[1];
    s->count_x += 1, s->count_z += 1;
    s->variance_x = positive(s->total_x / s->count_x);
    s->variance_z = positive(s->total_z / s->count_z);
    v sigma_x = vsqrt(s->variance_x), sigma_z = vsqrt(s->variance_z);

    /* Predicted rows */
    const v *f = s->factor, *old = s->slope;
    v x[12] = {}, dx[12] = {}, dddx[12] = {}, z[12] = {}, ddz[12] = {}, h1[12] = {}, h2[12] = {};
    UNROLL for (int j = 0; j < 5; j++)
    {
        v none = {};
        v x_old = j < 3 ? f[j] : none, dx_old = j < 3 ? f[3 + j] : none, z_old = j < 3 ? f[6 + j] : none;
        v dddx_old = j < 4 ? f[9 + j] : none, ddz_old = f[13 + j];
        v ddx_old = old[0] * x_old + old[1] * dx_old + old[2] * z_old;
        v dz_old = old[3] * dx_old + old[4] * z_old;
        if (j < 4) {
            dddx[j] = dddx_old;
            h1[j] = j < 3 ? ddx_old + dddx_old : dddx_old;
            dx[j] = j < 3 ? dx_old + 2 * ddx_old + dddx_old : dddx_old;
            x[j] = j < 3 ? x_old + 3 * (dx_old + ddx_old) + dddx_old : dddx_old;
        }
        ddz[j] = ddz_old;
        h2[j] = j < 3 ? dz_old + ddz_old : ddz_old;
        z[j] = j < 3 ? z_old + 2 * dz_old + ddz_old : ddz_old;
    }
    UNROLL for (int j = 0; j < 4; j++)
    {
        if (j <= 0) x[5 + j] = sigma_x * process_x[0][j];
        if (j <= 1) dx[5 + j] = sigma_x * process_x[1][j];
        if (j <= 2) h1[5 + j] = sigma_x * process_x[2][j];
        dddx[5 + j] = sigma_x * process_x[3][j];
    }
    UNROLL for (int j = 0; j < 3; j++)
    {
        if (j <= 0) z[9 + j] = sigma_z * process_z[0][j];
        if (j <= 1) h2[9 + j] = sigma_z * process_z[1][j];
        ddz[9 + j] = sigma_z * process_z[2][j];
    }

    /* The residuals' rows, and conditioning on one after the other */
    remove_part(h1, xx_slope, x, X);
    remove_part(h1, xdx_slope, dx, DX);
    remove_part(h1, xz_slope, z, Z);
    remove_part(h2, zdx_slope, dx, DX);
    remove_part(h2, zz_slope, z, Z);
    struct values x_values = {x_mean, part_x}, dx_values = {dx_mean, part_x}, dddx_values = {m[3], part_x};
    struct values z_values = {z_mean, part_z}, ddz_values = {m[6], part_z};
    v inverse = reciprocal(dot(h1, h1, H1));
    struct values second = residual_z;
    condition(h2, &second, h1, inverse, residual_x, H1 & H2, H1);
    condition(x, &x_values, h1, inverse, residual_x, X & H1, H1);
    condition(dx, &dx_values, h1, inverse, residual_x, DX & H1, H1);
    condition(z, &z_values, h1, inverse, residual_x, Z & H1, H1);
    condition(dddx, &dddx_values, h1, inverse, residual_x, DDDX & H1, H1);
    condition(ddz, &ddz_values, h1, inverse, residual_x, DDZ & H1, H1);
    inverse = reciprocal(dot(h2, h2, H));
    condition(x, &x_values, h2, inverse, second, (X | H1) & H, H);
    condition(dx, &dx_values, h2, inverse, second, (DX | H1) & H, H);
    condition(z, &z_values, h2, inverse, second, (Z | H1) & H, H);
    condition(dddx, &dddx_values, h2, inverse, second, (DDDX | H1) & H, H);
    condition(ddz, &ddz_values, h2, inverse, second, (DDZ | H1) & H, H);
    v new_x = x_values.mean, new_dx = dx_values.mean, new_dddx = dddx_values.mean, new_z = z_values.mean;
    v new_ddz = ddz_values.mean;
    v slopes[5] = {xx_slope, xdx_slope, xz_slope, zdx_slope, zz_slope};
    struct along off = bouc_wen_along(x_values.part, dx_values.part, z_values.part, slopes, scale);
    part_x = dddx_values.part - off.dddx, part_z = ddz_values.part - off.ddz;
    v change_x = new_x - x_mean, change_dx = new_dx - dx_mean, change_z = new_z - z_mean;
    v new_ddx = value_x + xx_slope * change_x + xdx_slope * change_dx + xz_slope * change_z;
    v new_dz = value_z + zdx_slope * change_dx + zz_slope * change_z;

    /* Triangular factor; columns 8 and 11 belong to dddx and ddz alone */
    v *row[5] = {x, dx, z, dddx, ddz};
    v factor[5][5];
    UNROLL for (int i = 0; i < 5; i++)
    {
        int columns = i < 3 ? H : i == 3 ? H | DDDX : H | DDDX | DDZ;
        v length2 = dot(row[i], row[i], columns), length = vsqrt(length2), reciprocal2 = reciprocal(length2);
        factor[i][i] = length;
        UNROLL for (int k = i + 1; k < 5; k++)
        {
            v gain = dot(row[i], row[k], H) * reciprocal2;
            factor[k][i] = gain * length;
            remove_part(row[k], gain, row[i], columns);
        }
    }

    /* Data: the acceleration, whose row is its slopes times those of x, dx and z */
    v energy = all(0);
    UNROLL for (int i = 0; i < 3; i++) UNROLL for (int j = i + 1; j < 3; j++) factor[i][j] = all(0);
    if (!isnan(observed)) {
        struct potter update;
        v output[3], covariance[5];
        UNROLL for (int j = 0; j < 3; j++)
        {
            output[j] = xz_slope * factor[2][j];
            if (j < 2) output[j] += xdx_slope * factor[1][j];
            if (j < 1) output[j] += xx_slope * factor[0][j];
            output[j] *= scale[2];
        }
        v variance = output[0] * output[0] + output[1] * output[1] + output[2] * output[2] + p->noise * p->noise;
        energy = observe(&update, all(observed), new_ddx * scale[2], variance, p->noise);
        UNROLL for (int i = 0; i < 5; i++)
        {
            covariance[i] = output[0] * factor[i][0];
            if (i > 0) covariance[i] += output[1] * factor[i][1];
            if (i > 1) covariance[i] += output[2] * factor[i][2];
            v shrink = covariance[i] * update.shrink;
            UNROLL for (int j = 0; j < 3; j++) factor[i][j] -= shrink * output[j];
            covariance[i] *= update.correction;
        }
        new_x += covariance[0], new_dx += covariance[1], new_z += covariance[2];
        new_dddx += covariance[3], new_ddz += covariance[4];
        new_ddx += xx_slope * covariance[0] + xdx_slope * covariance[1] + xz_slope * covariance[2];
        new_dz += zdx_slope * covariance[1] + zz_slope * covariance[2];
        off = bouc_wen_along(covariance[0], covariance[1], covariance[2], slopes, scale);
        part_x += covariance[3] - off.dddx, part_z += covariance[4] - off.ddz;
    }
    s->mean[0] = new_x, s->mean[1] = new_dx, s->mean[2] = new_ddx, s->mean[3] = new_dddx;
    s->mean[4] = new_z, s->mean[5] = new_dz, s->mean[6] = new_ddz;
    UNROLL for (int j = 0; j < 5; j++)
    {
        if (j < 3) s->factor[j] = factor[0][j], s->factor[3 + j] = factor[1][j], s->factor[6 + j] = factor[2][j];
        if (j < 4) s->factor[9 + j] = factor[3][j];
        s->factor[13 + j] = factor[4][j];
    }
    s->slope[0] = xx_slope, s->slope[1] = xdx_slope, s->slope[2] = xz_slope;
    s->slope[3] = zdx_slope, s->slope[4] = zz_slope;
    s->part_x = part_x, s->part_z = part_z;
    return energy;
}

int block_size(void) { return PARTICLES; }

/* All arrays are row-major with the particle last.  The number of particles must be a multiple of block_size().
   parameters: m, c, k, k3;  process: square root of Q in scaled coordinates;  energies: (samples, particles). */
void duffing(long particles, long samples, const double *parameters, const double *noise, const double *scale,
             const double process[4][4], const double *force, const double *observed, const double *unit, double *state,
             double *energies)
{
    for (long first = 0; first < particles; first += PARTICLES) {
        struct duffing s[VECTORS];
        struct duffing_particle p[VECTORS];
        for (int b = 0; b < VECTORS; b++) {
            long i = first + b * LANES;
            v mass = load(parameters, i);
            p[b].c = load(parameters + particles, i);
            p[b].k = load(parameters + 2 * particles, i);
            p[b].k3 = load(parameters + 3 * particles, i);
            p[b].inverse_mass = 1 / mass;
            p[b].velocity_slope = -p[b].c / mass * (scale[1] / scale[2]);
            p[b].noise = load(noise, i);
            for (int r = 0; r < DUFFING_STATE; r++) ((v *)&s[b])[r] = load(state + r * particles, i);
        }
        for (long k = 0; k < samples; k++)
            for (int b = 0; b < VECTORS; b++) {
                v energy = duffing_step(&s[b], &p[b], scale, process, force[k], observed[k], 1 / unit[k]);
                store(energies + k * particles, first + b * LANES, energy);
            }
        for (int b = 0; b < VECTORS; b++)
            for (int r = 0; r < DUFFING_STATE; r++) store(state + r * particles, first + b * LANES, ((v *)&s[b])[r]);
    }
}

/* parameters: m, c, k, alpha, beta, gamma, delta;  unit: (samples, 2). */
void bouc_wen(long particles, long samples, const double *parameters, const double *noise, const double *scale,
              const double process_x[4][4], const double process_z[3][3], const double *force, const double *observed,
              const double *unit, double *state, double *energies)
{
    for (long first = 0; first < particles; first += PARTICLES) {
        struct bouc_wen s[VECTORS];
        struct bouc_wen_particle p[VECTORS];
        for (int b = 0; b < VECTORS; b++) {
            long i = first + b * LANES;
            v mass = load(parameters, i), beta = load(parameters + 4 * particles, i);
            p[b].c = load(parameters + particles, i);
            p[b].k = load(parameters + 2 * particles, i);
            p[b].alpha = load(parameters + 3 * particles, i);
            p[b].gamma = beta * load(parameters + 5 * particles, i);
            p[b].delta = beta * load(parameters + 6 * particles, i);
            p[b].inverse_mass = 1 / mass;
            p[b].slope_xx = -p[b].k / mass * (scale[0] / scale[2]);
            p[b].slope_xdx = -p[b].c / mass * (scale[1] / scale[2]);
            p[b].slope_xz = -1 / mass * (scale[4] / scale[2]);
            p[b].noise = load(noise, i);
            for (int r = 0; r < BOUC_WEN_STATE; r++) ((v *)&s[b])[r] = load(state + r * particles, i);
        }
        for (long k = 0; k < samples; k++) {
            const double inverse_unit[2] = {1 / unit[2 * k], 1 / unit[2 * k + 1]};
            for (int b = 0; b < VECTORS; b++) {
                v energy = bouc_wen_step(&s[b], &p[b], scale, process_x, process_z, force[k], observed[k], inverse_unit);
                store(energies + k * particles, first + b * LANES, energy);
            }
        }
        for (int b = 0; b < VECTORS; b++)
            for (int r = 0; r < BOUC_WEN_STATE; r++) store(state + r * particles, first + b * LANES, ((v *)&s[b])[r]);
    }
}

/* The pilot: classical Runge-Kutta steps, one per sample, and a Gaussian likelihood (odefilter/runge_kutta.py).  What does
   not change in time is computed once per block, as above. */

#define STAGES(slopes, size)                                                                                           \
    v k[4][size], at[size];                                                                                            \
    slopes(k[0], x, force[0], p);                                                                                      \
    UNROLL for (int j = 0; j < size; j++) at[j] = x[j] + 0.5 * length * k[0][j];                                       \
    slopes(k[1], at, halfway, p);                                                                                      \
    UNROLL for (int j = 0; j < size; j++) at[j] = x[j] + 0.5 * length * k[1][j];                                       \
    slopes(k[2], at, halfway, p);                                                                                      \
    UNROLL for (int j = 0; j < size; j++) at[j] = x[j] + length * k[2][j];                                             \
    slopes(k[3], at, force[1], p);                                                                                     \
    UNROLL for (int j = 0; j < size; j++) x[j] += length / 6 * (k[0][j] + 2 * (k[1][j] + k[2][j]) + k[3][j]);

struct constants {
    v inverse_mass, given[6], inverse_noise, offset;
};

INLINE void prepare(struct constants *p, const double *parameters, int count, long particles, const double *noise, long i)
{
    p->inverse_mass = 1 / load(parameters, i);
    for (int j = 1; j < count; j++) p->given[j - 1] = load(parameters + j * particles, i);
    p->inverse_noise = 1 / load(noise, i);
    p->offset = vlog(2.506628274631000502 * load(noise, i));
}

INLINE v gaussian(v miss, const struct constants *p)
{
    v white = miss * p->inverse_noise;
    return 0.5 * white * white + p->offset;
}

/* c, k, k3 */
INLINE void duffing_slopes(v *rate, const v *x, double force, const struct constants *p)
{
    const v *g = p->given;
    rate[0] = x[1];
    rate[1] = (force - g[0] * x[1] - g[1] * x[0] - g[2] * x[0] * x[0] * x[0]) * p->inverse_mass;
}

INLINE v duffing_pilot_step(v *x, double length, const double *force, double halfway, double observed,
                            const struct constants *p)
{
    STAGES(duffing_slopes, 2)
    return gaussian(observed - x[0], p);
}

/* c, k, alpha, beta, gamma, delta */
INLINE void bouc_wen_slopes(v *rate, const v *x, double force, const struct constants *p)
{
    const v *g = p->given;
    rate[0] = x[1];
    rate[1] = (force - g[0] * x[1] - g[1] * x[0] - x[2]) * p->inverse_mass;
    rate[2] = g[2] * x[1] - g[3] * (g[4] * absolute(x[1]) * x[2] + g[5] * x[1] * absolute(x[2]));
}

INLINE v bouc_wen_pilot_step(v *x, double length, const double *force, double halfway, double observed,
                             const struct constants *p)
{
    STAGES(bouc_wen_slopes, 3)
    bouc_wen_slopes(k[0], x, force[1], p);
    return gaussian(observed - k[0][1], p);
}

/* force: at both ends of all intervals, (samples + 1);  halfway: in their middle;  state: physical components. */
#define PILOT(name, size, count)                                                                                       \
    void name(long particles, long samples, const double *parameters, const double *noise, const double *length,       \
              const double *force, const double *halfway, const double *observed, double *state, double *energies)     \
    {                                                                                                                  \
        for (long first = 0; first < particles; first += PARTICLES) {                                                  \
            v x[VECTORS][size];                                                                                        \
            struct constants p[VECTORS];                                                                               \
            for (int b = 0; b < VECTORS; b++) {                                                                        \
                prepare(&p[b], parameters, count, particles, noise, first + b * LANES);                                \
                for (int r = 0; r < size; r++) x[b][r] = load(state + r * particles, first + b * LANES);               \
            }                                                                                                          \
            for (long k = 0; k < samples; k++)                                                                         \
                for (int b = 0; b < VECTORS; b++) {                                                                    \
                    v energy = name##_step(x[b], *length, force + k, halfway[k], observed[k], &p[b]);                  \
                    store(energies + k * particles, first + b * LANES, energy);                                        \
                }                                                                                                      \
        }                                                                                                              \
    }

PILOT(duffing_pilot, 2, 4)
PILOT(bouc_wen_pilot, 3, 7)
