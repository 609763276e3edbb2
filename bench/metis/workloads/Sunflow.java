package workloads;

import java.util.Random;
import org.sunflow.SunflowAPI;
import org.sunflow.core.Display;
import org.sunflow.image.Color;
import org.sunflow.math.Matrix4;
import org.sunflow.math.Point3;
import org.sunflow.math.Vector3;
import org.sunflow.system.UI;
import org.sunflow.system.ui.SilentInterface;

/** Debian's Sunflow renders a small picture of balls on a plane, each round from a scene that it builds anew. */
final class Sunflow implements Workload {
    private static final String[] SHADERS = {"matt", "mirror", "glass"};

    private final boolean training;
    private final int width;
    private final int height;

    Sunflow(boolean training) {
        UI.set(new SilentInterface());
        this.training = training;
        width = training ? 32 : 40;
        height = training ? 24 : 26;
    }

    private SunflowAPI build() {
        SunflowAPI api = new SunflowAPI();
        api.parameter("transform", Matrix4.lookAt(new Point3(0, -14, 6), new Point3(0, 0, 1), new Vector3(0, 0, 1)));
        api.parameter("fov", 45f);
        api.parameter("aspect", 1.4f);
        api.camera("camera", "pinhole");
        light(api, "sun", new Point3(6, -6, 10));
        light(api, "lamp", new Point3(-6, -4, 8));
        api.parameter("diffuse", null, .6f, .7f, .8f);
        api.shader("matt", "diffuse");
        api.parameter("color", null, .8f, .8f, .9f);
        api.shader("mirror", "mirror");
        api.parameter("eta", 1.5f);
        api.parameter("color", null, .9f, 1f, .9f);
        api.shader("glass", "glass");
        api.parameter("center", new Point3(0, 0, 0));
        api.parameter("normal", new Vector3(0, 0, 1));
        api.geometry("plane", "plane");
        instance(api, "plane", "matt", Matrix4.IDENTITY);
        balls(api, new Random(training ? 51 : 52), training ? 7 : 12);
        return api;
    }

    private static void light(SunflowAPI api, String name, Point3 place) {
        api.parameter("center", place);
        api.parameter("power", null, 300f, 280f, 200f);
        api.light(name, "point");
    }

    private static void balls(SunflowAPI api, Random random, int count) {
        for (int i = 0; i < count; i++) {
            float radius = .3f + random.nextFloat();
            String name = "ball" + i;
            api.geometry(name, "sphere");
            Matrix4 place = Matrix4.translation(8 * random.nextFloat() - 4, 8 * random.nextFloat() - 4, radius);
            instance(api, name, SHADERS[random.nextInt(3)], place.multiply(Matrix4.scale(radius)));
        }
    }

    private static void instance(SunflowAPI api, String geometry, String shader, Matrix4 place) {
        api.parameter("transform", place);
        api.parameter("shaders", new String[] {shader});
        api.instance(geometry + ".instance", geometry);
    }

    @Override
    public long round(int number) {
        SunflowAPI api = build();
        api.parameter("camera", "camera");
        api.parameter("resolutionX", width);
        api.parameter("resolutionY", height);
        api.parameter("aa.min", 0);
        api.parameter("aa.max", 1);
        api.parameter("depths.reflection", 3);
        api.parameter("depths.refraction", 2);
        api.parameter("threads", 1);
        api.options(SunflowAPI.DEFAULT_OPTIONS);
        Sum sum = new Sum();
        api.render(SunflowAPI.DEFAULT_OPTIONS, sum);
        if (sum.pixels < width * height) {
            throw new IllegalStateException("the picture is not whole");
        }
        return sum.value;
    }

    private static final class Sum implements Display {
        long value;
        int pixels;

        @Override
        public void imageBegin(int w, int h, int bucketSize) {}

        @Override
        public void imagePrepare(int x, int y, int w, int h, int id) {}

        @Override
        public void imageUpdate(int x, int y, int w, int h, Color[] data, float[] alpha) {
            for (Color color : data) {
                value = 31 * value + color.toRGB();
            }
            pixels += w * h;
        }

        @Override
        public void imageFill(int x, int y, int w, int h, Color c, float alpha) {
            pixels += w * h;
        }

        @Override
        public void imageEnd() {}
    }
}
